/*
 * Where the module's own file is: where it was recorded or below the sysroot, by its name
 * alone in the sysroot (a tree that was rearranged), or by its build-id. One that was recorded
 * with a build-id is looked for everywhere, since the id proves it; one without is whatever
 * stands in its place. If it is nowhere, its debug file stands for it.
 */
#include "symbols/image_internal.h"

#include <string.h>

struct places {
	struct symbols_image *image;
	const struct symbols_image_request *request;
	struct strbuf why; /* what is wrong with the first one */
	struct error *error;
};

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf, /* never called: the file is given */
	.find_debuginfo = symbols_image_find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

static void give_up(struct symbols_image *image)
{
	image->module = NULL;
	if (image->dwfl)
		dwfl_end(image->dwfl);
	image->dwfl = NULL;
	symbols_search_forget_alternate(&image->search);
}

/* Takes fd over. *ret NULL = not a usable ELF file. Addresses stay those of the file: no
 * bias, wherever it was linked to. */
static struct error *report(struct symbols_image *image, const char *path, int fd, Elf **ret)
{
	GElf_Addr bias;
	void **user;

	*ret = NULL;
	image->dwfl = dwfl_begin(&callbacks);
	if (!image->dwfl) {
		close(fd);
		return error_no_memory();
	}
	dwfl_report_begin(image->dwfl);
	image->module = dwfl_report_elf(image->dwfl, path, path, fd, 0, true);
	if (!image->module)
		close(fd);
	dwfl_report_end(image->dwfl, NULL, NULL);
	if (!image->module)
		return NULL;
	dwfl_module_info(image->module, &user, NULL, NULL, NULL, NULL, NULL, NULL);
	*user = image;
	*ret = dwfl_module_getelf(image->module, &bias);
	return NULL;
}

static void explain(struct places *places, const char *what, const char *detail)
{
	if (places->why.length == 0)
		strbuf_printf(&places->why, "%s%s", what, detail);
}

static void explain_other(struct places *places, const char *has)
{
	CLEANUP_STRBUF struct strbuf recorded = STRBUF_EMPTY;

	symbols_build_id_print(&recorded, &places->request->build_id);
	if (places->why.length == 0 && !recorded.failed)
		strbuf_printf(&places->why,
			      "the file there now is another: build-id %s was recorded, it has %s",
			      recorded.text, has);
}

static bool is_deleted(const char *path)
{
	size_t length = strlen(path);

	return length > strlen(SYMBOLS_DELETED) &&
	       strcmp(path + length - strlen(SYMBOLS_DELETED), SYMBOLS_DELETED) == 0;
}

static void explain_absence(struct places *places, const char *path, int number)
{
	if (is_deleted(path))
		explain(places, "the file was deleted or replaced while in use", "");
	else
		explain(places, "cannot open the file: ",
			number == EINVAL ? "not a regular file" : strerror(number));
}

/* Whether it is the file recorded. tried is amended by what it is, and goes to the trace. */
static void appraise(struct places *places, Elf *elf, struct symbols_try *tried)
{
	struct symbols_image *image = places->image;
	const struct symbols_build_id *recorded = &places->request->build_id;
	CLEANUP_STRBUF struct strbuf id = STRBUF_EMPTY;

	if (!elf) {
		explain(places, "not a usable ELF file: ", dwfl_errmsg(-1));
		tried->outcome = SYMBOLS_OUTCOME_NOT_ELF;
		symbols_trace_add(&image->search.trace, tried);
		give_up(image);
		return;
	}
	image->search.build_id = symbols_build_id_of(elf);
	symbols_search_note_alternate(&image->search, elf);
	tried->outcome = symbols_debug_outcome(elf);
	if (recorded->count > 0 && !symbols_build_id_equal(recorded, &image->search.build_id)) {
		symbols_build_id_print(&id, &image->search.build_id);
		strbuf_append(&id, image->search.build_id.count == 0 ? "none" : "");
		tried->outcome = SYMBOLS_OUTCOME_OTHER_BUILD_ID;
		tried->detail = id.text;
		explain_other(places, id.text ? id.text : "");
		give_up(image);
	}
	symbols_trace_add(&image->search.trace, tried);
}

/* Whether to try on. */
static bool try_file(void *context, const char *path)
{
	struct places *places = context;
	struct symbols_try tried;
	Elf *elf;
	int fd = symbols_search_open(&places->image->search, SYMBOLS_PLACE_FILE, path, &tried);

	if (fd < 0) {
		explain_absence(places, path, errno);
		return true;
	}
	places->error = report(places->image, path, fd, &elf);
	if (places->error)
		return false;
	appraise(places, elf, &tried);
	if (!places->image->module)
		return true;
	places->image->path = strdup(path);
	if (!places->image->path)
		places->error = error_no_memory();
	return false;
}

/* In the sysroot, or here if root is "". */
static bool try_below(struct places *places, const char *root, const char *path, size_t length)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	strbuf_append(&text, root);
	strbuf_append_bytes(&text, path, length);
	places->error = strbuf_result(&text);
	return !places->error && try_file(places, text.text);
}

static struct error *try_places(struct places *places)
{
	const struct symbols_image_request *request = places->request;
	const char *path = request->path, *sysroot = places->image->search.sysroot;
	const char *name = strrchr(path, '/');
	size_t length = strlen(path);
	size_t plain = is_deleted(path) ? length - strlen(SYMBOLS_DELETED) : length;
	bool has_id = request->build_id.count > 0;
	bool more = !request->file || try_file(places, request->file);

	if (more && *sysroot)
		more = try_below(places, sysroot, path, has_id ? plain : length);
	if (more && *sysroot && has_id && name && name != path)
		more = try_below(places, sysroot, name, plain - (size_t)(name - path));
	if (more && (has_id || !*sysroot))
		more = try_file(places, path);
	if (more && has_id && plain < length)
		more = try_below(places, "", path, plain);
	if (more && has_id)
		symbols_search_own(&places->image->search, &request->build_id, try_file, places);
	return places->error;
}

/* Everything an image needs can be in its separate debug file. */
static struct error *open_debug_file(struct symbols_image *image,
				     const struct symbols_build_id *build_id)
{
	CLEANUP_FREE char *path = NULL;
	Elf *elf;

	image->search.build_id = *build_id;
	int fd = symbols_search_build_id(&image->search, &path);

	if (fd < 0)
		fd = symbols_search_server(&image->search, &image->search.build_id, &path);
	if (fd < 0)
		fd = symbols_search_poor(&image->search, &path);
	if (fd < 0)
		return NULL;
	TRY(report(image, path, fd, &elf));
	if (!elf) {
		symbols_trace_amend(&image->search.trace, path, SYMBOLS_OUTCOME_NOT_ELF, NULL);
		give_up(image);
		return NULL;
	}
	symbols_search_note_alternate(&image->search, elf);
	image->by_debug_file = true;
	image->debug_file = STEAL(path);
	return NULL;
}

struct error *symbols_image_open_file(struct symbols_image *image,
				      const struct symbols_image_request *request)
{
	struct places places = {.image = image, .request = request, .why = STRBUF_EMPTY};

	if (request->path[0] == '\0' || request->path[0] == '[') {
		symbols_image_because(image, "it has no file");
		return NULL;
	}
	struct error *error = try_places(&places);

	if (!error && !image->module) {
		symbols_image_because(image, "%s", places.why.text ? places.why.text : "");
		if (request->build_id.count > 0)
			error = open_debug_file(image, &request->build_id);
	}
	strbuf_free(&places.why);
	return error;
}
