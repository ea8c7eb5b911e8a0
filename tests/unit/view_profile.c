#include "view_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ledger/layout.h"

void view_begin(struct view *view)
{
	*view = (struct view){.path = "/tmp/mallograph-view-XXXXXX"};
	int fd = mkstemp(view->path);

	assert_true(fd >= 0);
	close(fd);
	assert_null(store_writer_open(view->path, view->path, &view->writer));
	assert_null(store_put_meta_text(view->writer, "tool", "mallograph test"));
}

struct analyze_model *view_end(struct view *view)
{
	struct analyze_model *model = NULL;

	assert_null(store_writer_finish(view->writer));
	struct error *error = analyze_model_open(view->path, &model);

	unlink(view->path);
	if (error)
		fail_msg("%s", error->message);
	return model;
}

uint64_t view_string(struct view *view, const char *text)
{
	uint64_t id;

	assert_null(store_intern(view->writer, text, text ? strlen(text) : 0, &id));
	return id;
}

uint64_t view_module(struct view *view, const char *path, enum store_symbols symbols)
{
	struct store_module row = {
		.id = ++view->module,
		.kind = STORE_MODULE_FILE,
		.path = view_string(view, path),
		.symbols = symbols,
	};

	assert_null(store_put(view->writer, &row));
	return row.id;
}

static uint64_t add_place(struct view *view, uint64_t module)
{
	struct store_loc row = {.id = ++view->loc, .module = module};

	row.offset = row.id * 0x100;
	assert_null(store_put(view->writer, &row));
	return row.id;
}

static void add_line(struct view *view, uint64_t place, uint64_t depth, const char *function,
		     const char *file, uint64_t line)
{
	struct store_line row = {
		.loc = place,
		.depth = depth,
		.function = view_string(view, function),
		.file = view_string(view, file),
		.line = line ? line : STORE_UNKNOWN,
		.col = line ? 7 : STORE_UNKNOWN,
	};

	assert_null(store_put(view->writer, &row));
}

uint64_t view_place(struct view *view, uint64_t module, const char *function, const char *file,
		    uint64_t line)
{
	uint64_t place = add_place(view, module);

	if (function || file)
		add_line(view, place, 0, function, file, line);
	return place;
}

uint64_t view_inlined(struct view *view, uint64_t module, const char *inner, const char *outer)
{
	uint64_t place = add_place(view, module);

	add_line(view, place, 0, inner, "inner.h", 5);
	add_line(view, place, 1, outer, "outer.c", 50);
	return place;
}

uint64_t view_stack(struct view *view, const uint64_t *places)
{
	uint64_t parent = 0;

	for (; *places; places++) {
		struct store_stack row = {++view->stack, parent, *places};

		assert_null(store_put(view->writer, &row));
		parent = row.id;
	}
	return parent;
}

struct store_process view_process(struct view *view, const char *command)
{
	return (struct store_process){
		.id = ++view->process,
		.how = STORE_HOW_ROOT,
		.pid = 4711,
		.ppid = 1,
		.exe = view_string(view, "/usr/bin/program"),
		.argv = {command, strlen(command) + 1},
		.start = 0,
		.stop = UINT64_C(2000000000),
		.end_kind = STORE_END_EXIT,
		.sample_period = 1,
		.peak_time = UINT64_C(1000000000),
		.rss_peak = STORE_UNKNOWN,
		.threads = 1,
		.tree_peak_bytes = STORE_UNKNOWN,
		.inherited_frees = STORE_UNKNOWN,
	};
}

void view_site(struct view *view, uint64_t process, uint64_t stack, uint64_t title, uint64_t count,
	       uint64_t size, uint64_t live)
{
	struct store_site row = {
		.id = ++view->site,
		.process = process,
		.stack = stack,
		.api = MGL_API_MALLOC,
		.title = title,
		.allocs = count,
		.frees = count - live,
		.alloc_bytes = count * size,
		.live_blocks = live,
		.live_bytes = live * size,
		.peak_blocks = count,
		.peak_bytes = count * size,
	};
	struct store_site_size sizes = {
		.site = row.id,
		.class = mgl_size_class(size),
		.allocs = count,
		.live = live,
		.bytes = count * size,
	};

	assert_null(store_put(view->writer, &row));
	assert_null(store_put(view->writer, &sizes));
}

void view_snap(struct view *view, uint64_t process, uint64_t ms, uint64_t live_bytes,
	       enum store_why why)
{
	struct store_snap row = {
		.id = ++view->snap,
		.process = process,
		.time = ms * 1000000,
		.why = why,
		.live_bytes = live_bytes,
	};

	assert_null(store_put(view->writer, &row));
}
