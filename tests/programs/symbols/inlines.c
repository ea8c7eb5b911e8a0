/* Calls inlined four deep, in branches and loops, hot and cold; static and nested
 * functions; more than one range a function. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
	struct node *next;
	char name[24];
	int value;
};

static inline __attribute__((always_inline)) void *get(size_t bytes)
{
	void *memory = malloc(bytes);

	if (__builtin_expect(!memory, 0)) {
		fprintf(stderr, "no memory for %zu bytes\n", bytes);
		abort();
	}
	return memory;
}

static inline __attribute__((always_inline)) struct node *node_create(const char *name, int value)
{
	struct node *node = get(sizeof(*node));

	snprintf(node->name, sizeof(node->name), "%s-%d", name, value);
	node->value = value;
	return node;
}

static inline __attribute__((always_inline)) void list_push(struct node **list, const char *name,
							    int value)
{
	struct node *node = node_create(name, value);

	node->next = *list;
	*list = node;
}

static inline __attribute__((always_inline)) void list_fill(struct node **list, int count)
{
	for (int i = 0; i < count; i++)
		list_push(list, i & 1 ? "odd" : "even", i);
}

static int weigh(const struct node *list)
{
	int sum = 0;

	for (; list; list = list->next)
		sum += list->value * (int)strlen(list->name);
	return sum;
}

__attribute__((noinline)) int run(int count)
{
	struct node *list = NULL;

	list_fill(&list, count);
	list_push(&list, "last", count);
	int sum = weigh(list);

	while (list) {
		struct node *next = list->next;

		free(list);
		list = next;
	}
	return sum;
}

#ifdef __clang__
static int apply(int (*function)(int), int count) { return function(count); }
static int thrice(int x) { return run(x) * 3; }
#else
static __attribute__((noinline)) int apply(int (*function)(int), int count)
{
	int extra = count / 2;
	int nested(int x) { return function(x) + extra; }

	return nested(count) + nested(count + 1);
}
static __attribute__((noinline)) int thrice(int x) { return run(x) * 3; }
#endif

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 10;

	printf("%d %d\n", run(count), apply(thrice, count));
	return 0;
}
