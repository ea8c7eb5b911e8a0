#include "symbols/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Longer than any writer lives between making a file and naming it. */
#define ABANDONED_SECONDS 3600

struct file {
	char *name;
	uint64_t bytes;
	int64_t used; /* s since 1970 */
};

typedef VECTOR(struct file) file_list;

static void free_files(file_list *files)
{
	for (size_t i = 0; i < files->count; i++)
		free(files->items[i].name);
	vector_free(files);
}

static bool ends_in(const char *name, const char *end)
{
	size_t length = strlen(name), end_length = strlen(end);

	return length >= end_length && strcmp(name + length - end_length, end) == 0;
}

static struct error *take_file(const struct symbols_cache *cache, const char *name,
			       file_list *files)
{
	bool is_new = ends_in(name, ".new");
	struct stat st;

	if ((!is_new && !ends_in(name, ".symbols")) ||
	    fstatat(cache->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
		return NULL;
	if (is_new) {
		if (time(NULL) - st.st_mtim.tv_sec > ABANDONED_SECONDS)
			unlinkat(cache->fd, name, 0);
		return NULL;
	}
	struct file file = {
		.name = strdup(name),
		.bytes = (uint64_t)st.st_blocks * 512,
		.used = st.st_mtim.tv_sec,
	};
	struct error *error = file.name ? vector_push(files, file) : error_no_memory();

	if (error)
		free(file.name);
	return error;
}

static struct error *list_files(const struct symbols_cache *cache, file_list *files)
{
	int fd = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
	struct error *error = NULL;
	struct dirent *entry;

	if (!directory && fd >= 0)
		close(fd);
	while (directory && !error && (entry = readdir(directory)) != NULL)
		error = take_file(cache, entry->d_name, files);
	if (directory)
		closedir(directory);
	return error;
}

static int compare_use(const void *left, const void *right)
{
	const struct file *a = left, *b = right;

	return a->used < b->used ? -1 : a->used > b->used;
}

/* Down to three quarters, so that it is not done each time. */
static void remove_oldest(const struct symbols_cache *cache, file_list *files, uint64_t most)
{
	uint64_t total = 0;

	for (size_t i = 0; i < files->count; i++)
		total += files->items[i].bytes;
	if (total <= most)
		return;
	qsort(files->items, files->count, sizeof(*files->items), compare_use);
	for (size_t i = 0; i < files->count && total > most / 4 * 3; i++) {
		if (unlinkat(cache->fd, files->items[i].name, 0) == 0 || errno == ENOENT)
			total -= files->items[i].bytes;
	}
}

void symbols_cache_trim(const struct symbols_cache *cache, uint64_t most)
{
	file_list files = VECTOR_EMPTY;
	struct error *error;

	if (cache->fd < 0)
		return;
	error = list_files(cache, &files);
	if (!error)
		remove_oldest(cache, &files, most);
	error_free(error);
	free_files(&files);
}
