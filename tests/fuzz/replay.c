/*
 * Replays a corpus without a fuzzer, and translates it. A corpus file is text, so that it
 * can be read, changed and reviewed:
 *
 *	# a comment
 *	pages 512
 *	0 4d474c4544475231 01000000
 *
 * where a line is an offset in hexadecimal and bytes to stand there. Of a target that takes
 * text the first line is "words", and each line is one that ends with a NUL, or "lines", and
 * each ends as here, but with no newline after a last \ . \xHH is a byte, \\ is \ .
 *
 *	replay FILE…               run each
 *	replay --write DIR FILE…   write each as a fuzzer's input
 *	replay --encode LEDGER     print a ledger as a corpus file
 *	replay --decode INPUT      print a fuzzer's input as a corpus file
 *	replay --decode=words INPUT, --decode=lines INPUT
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

/* A line of text without its escapes; what it ends with follows, unless it ends with \. */
static void parse_text(struct input *input, const char *path, const char *line, char end)
{
	for (; *line && *line != '\n'; line++) {
		int byte = *line;

		if (line[0] == '\\' && line[1] == '\n')
			return;
		if (line[0] == '\\' && line[1] == 'x') {
			byte = hex_digit(path, line[2]) << 4;
			byte |= hex_digit(path, line[3]);
			line += 3;
		} else if (line[0] == '\\') {
			byte = *++line;
		}
		put(input, path, (uint64_t)byte, 1);
	}
	put(input, path, (uint64_t)end, 1);
}

static void parse(struct input *input, const char *path)
{
	enum { NOTHING, PAGES, WORDS, LINES } form = NOTHING;
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;

	if (!file)
		die(path, strerror(errno));
	input->size = 0;
	while (getline(&line, &room, file) >= 0) {
		if (form == WORDS || form == LINES)
			parse_text(input, path, line, form == WORDS ? '\0' : '\n');
		else if (line[0] == '#' || line[0] == '\n')
			continue;
		else if (form == PAGES)
			parse_patch(input, path, line);
		else if (strcmp(line, "words\n") == 0)
			form = WORDS;
		else if (strcmp(line, "lines\n") == 0)
			form = LINES;
		else if (strncmp(line, "pages ", 6) != 0)
			die(path, "does not begin with pages, words or lines");
		else
			form = PAGES, put(input, path, strtoull(line + 6, NULL, 10), 4);
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

static void print_text(const struct input *input, uint8_t end)
{
	size_t line = 0;

	for (size_t i = 0; i < input->size; i++) {
		uint8_t byte = input->bytes[i];

		if (byte == end)
			putchar('\n');
		else if (byte == '\\')
			printf("\\\\");
		else if (byte < ' ' || byte > '~')
			printf("\\x%02x", byte);
		else
			putchar(byte);
		line = byte == end ? 0 : line + 1;
	}
	if (line)
		puts("\\");
}

static void print_patches(const struct input *input)
{
	uint32_t word = 0;
	uint16_t count;

	memcpy(&word, input->bytes, sizeof(word));
	printf("pages %" PRIu32 "\n", word % (IMAGE_PAGES + 1));
	for (size_t at = 4; at + 6 <= input->size; at += 6 + count) {
		memcpy(&word, input->bytes + at, sizeof(word));
		memcpy(&count, input->bytes + at + 4, sizeof(count));
		if (count > input->size - at - 6)
			count = (uint16_t)(input->size - at - 6);
		print_patch(word, input->bytes + at + 6, count);
	}
}

/* form: what follows --decode. */
static int decode(const char *form, const char *path)
{
	static struct input input;
	FILE *file = fopen(path, "r");

	if (!file)
		die(path, strerror(errno));
	input.size = fread(input.bytes, 1, sizeof(input.bytes), file);
	fclose(file);
	if (*form) {
		puts(form + 1);
		print_text(&input, strcmp(form, "=words") == 0 ? '\0' : '\n');
	} else {
		print_patches(&input);
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
	if (argc == 3 && strncmp(argv[1], "--decode", 8) == 0)
		return decode(argv[1] + 8, argv[2]);
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
