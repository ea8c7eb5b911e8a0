#include "cli/symbols.h"

#include <string.h>
#include <sys/stat.h>

void cli_symbols_free(struct cli_symbols *symbols) { vector_free(&symbols->directories); }

/* A word misspelt here would look like symbols that are not there. */
static struct error *check_directory(const char *option, const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return error_create_system(errno, path, "--%s", option);
	if (!S_ISDIR(st.st_mode))
		return error_create_system(ENOTDIR, path, "--%s", option);
	return NULL;
}

struct error *cli_symbols_take(struct cli_symbols *symbols, const struct cli_option *option,
			       const char *value, bool *ret_taken)
{
	*ret_taken = true;
	switch (option->letter) {
	case CLI_OPTION_DEBUG_DIR:
		TRY(check_directory(option->name, value));
		return vector_push(&symbols->directories, value);
	case CLI_OPTION_SYSROOT:
	case CLI_OPTION_SYMFS:
		TRY(check_directory(option->name, value));
		symbols->options.sysroot = value;
		return NULL;
	default:
		*ret_taken = false;
		return NULL;
	}
}

const struct symbols_options *cli_symbols_options(struct cli_symbols *symbols)
{
	symbols->options.debug_directories = symbols->directories.items;
	symbols->options.debug_directory_count = symbols->directories.count;
	symbols->options.use_cache = true;
	return &symbols->options;
}
