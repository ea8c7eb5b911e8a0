/*
 * Replays a corpus without a fuzzer, and translates it. A corpus file is text, so that it
 * can be read, changed and reviewed:
 *
 *	# a comment
 *	pages 512
 *	0 4d474c4544475231 01000000
 *
 * where a line is an offset in hexadecimal and bytes to stand there.
 *
 *	replay FILE…             run each
 *	replay --write DIR FILE… write each as a fuzzer's input
 *	replay --encode LEDGER   print a ledger as a corpus file
 *	replay --decode INPUT    print a fuzzer's input as a corpus file
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

struct input {
	uint8_t bytes[1u << 20];
	size_t size;
};

static void die(const char *path, const char *what)
{
	fprintf(stderr, "replay: %s: %s\n", path, what);
	exit(2);
}

static void put(struct input *input, const char *path, uint64_t value, size_t bytes)
{
	if (bytes > sizeof(input->bytes) - input->size)
		die(path, "too long");
	memcpy(input->bytes + input->size, &value, bytes);
	input->size += bytes;
}

static int hex_digit(const char *path, char c)
{
	if (!isxdigit((unsigned char)c))
		die(path, "not a hexadecimal digit");
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

static void parse_patch(struct input *input, const char *path, const char *line)
{
	char *at;
	uint64_t offset = strtoull(line, &at, 16);

	put(input, path, offset, 4);
	size_t count_at = input->size;

	put(input, path, 0, 2);
	for (;; at += 2) {
		while (*at == ' ')
			at++;
		if (*at == '\0' || *at == '\n')
			break;
		put(input, path, (uint64_t)(hex_digit(path, at[0]) << 4 | hex_digit(path, at[1])),
		    1);
	}
	uint16_t count = (uint16_t)(input->size - count_at - 2);

	memcpy(input->bytes + count_at, &count, sizeof(count));
}

static void parse(struct input *input, const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;

	if (!file)
		die(path, strerror(errno));
	input->size = 0;
	while (getline(&line, &room, file) >= 0) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (input->size == 0) {
			if (strncmp(line, "pages ", 6) != 0)
				die(path, "does not begin with pages");
			put(input, path, strtoull(line + 6, NULL, 10), 4);
			continue;
		}
		parse_patch(input, path, line);
	}
	free(line);
	fclose(file);
}

static void print_patch(uint64_t offset, const uint8_t *bytes, size_t count)
{
	printf("%" PRIx64, offset);
	for (size_t i = 0; i < count; i++)
		printf("%s%02x", i % 8 ? "" : " ", bytes[i]);
	putchar('\n');
}

/* Lines of 32 bytes, those of zeros left out. */
static int encode(const char *path)
{
	uint8_t line[32];
	uint64_t offset = 0;
	FILE *file = fopen(path, "r");

	if (!file || fseek(file, 0, SEEK_END) != 0)
		die(path, strerror(errno));
	printf("pages %ld\n", ftell(file) / (long)IMAGE_PAGE_BYTES);
	rewind(file);
	for (size_t count; (count = fread(line, 1, sizeof(line), file)) > 0; offset += count) {
		bool zero = true;

		for (size_t i = 0; i < count; i++)
			zero &= line[i] == 0;
		if (!zero)
			print_patch(offset, line, count);
	}
	fclose(file);
	return 0;
}

static int decode(const char *path)
{
	static struct input input;
	FILE *file = fopen(path, "r");
	uint32_t word = 0;
	uint16_t count;

	if (!file)
		die(path, strerror(errno));
	input.size = fread(input.bytes, 1, sizeof(input.bytes), file);
	fclose(file);
	memcpy(&word, input.bytes, sizeof(word));
	printf("pages %" PRIu32 "\n", word % (IMAGE_PAGES + 1));
	for (size_t at = 4; at + 6 <= input.size; at += 6 + count) {
		memcpy(&word, input.bytes + at, sizeof(word));
		memcpy(&count, input.bytes + at + 4, sizeof(count));
		if (count > input.size - at - 6)
			count = (uint16_t)(input.size - at - 6);
		print_patch(word, input.bytes + at + 6, count);
	}
	return 0;
}

static void write_input(const struct input *input, const char *directory, const char *path)
{
	char name[4096];
	const char *base = strrchr(path, '/');

	snprintf(name, sizeof(name), "%s/%s", directory, base ? base + 1 : path);
	FILE *file = fopen(name, "w");

	if (!file || fwrite(input->bytes, 1, input->size, file) != input->size || fclose(file) != 0)
		die(name, strerror(errno));
}

int main(int argc, char **argv)
{
	static struct input input;
	const char *directory = NULL;
	int at = 1;

	if (argc == 3 && strcmp(argv[1], "--encode") == 0)
		return encode(argv[2]);
	if (argc == 3 && strcmp(argv[1], "--decode") == 0)
		return decode(argv[2]);
	if (argc > 3 && strcmp(argv[1], "--write") == 0) {
		directory = argv[2];
		at = 3;
	}
	if (at >= argc) {
		fprintf(stderr, "replay: which files?\n");
		return 2;
	}
	for (; at < argc; at++) {
		parse(&input, argv[at]);
		if (directory)
			write_input(&input, directory, argv[at]);
		else
			LLVMFuzzerTestOneInput(input.bytes, input.size);
	}
	return 0;
}
