#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "symbols/child.h"
#include "symbols/internal.h"
#include "symbols/limits.h"
#include "symbols/wire.h"

#define LOG_DOMAIN "symbols"
#include "base/log.h"

/* libdw and libiberty exit() where memory is short; the handlers and buffers are those of
 * the process we were forked from. */
static void leave(void) { _exit(SYMBOLS_READER_NO_MEMORY); }

static struct error *read_addresses(const struct symbols_work *work, struct symbols_image *image,
				    struct symbols_wire *wire)
{
	symbols_frame_list frames = VECTOR_EMPTY;
	struct error *error = NULL;

	for (uint32_t i = work->first; i < work->end && !error; i++) {
		const struct symbols_address *address = &work->module->addresses.items[i];

		if (address->is_done)
			continue;
		frames.count = 0;
		error = symbols_image_frames(image, address->pc, &frames);
		if (!error)
			error = symbols_wire_frames(wire, i, frames.items, frames.count);
	}
	vector_free(&frames);
	return error;
}

/* With the verdict, and what it took to come by it. */
static struct error *read_whole(const struct symbols_work *work, struct symbols_image *image,
				struct symbols_wire *wire)
{
	struct symbols_verdict verdict = symbols_image_verdict(image);
	const struct symbols_trace *trace = symbols_image_trace(image);
	size_t told = trace->tries.count;

	TRY(symbols_wire_verdict(wire, &verdict));
	/* Now, that it is known also where the addresses are the reader's end. */
	TRY(symbols_wire_tries(wire, trace, 0));
	TRY(read_addresses(work, image, wire));
	TRY(symbols_wire_tries(wire, trace, told));
	for (size_t i = 0; i < symbols_image_wanted(image)->count; i++)
		TRY(symbols_wire_wanted(wire, &symbols_image_wanted(image)->items[i]));
	return NULL;
}

static struct error *read_work(const struct symbols_work *work, struct symbols_wire *wire)
{
	const struct symbols_module *module = work->module;
	const struct symbols_image_request request = {
		.options = &module->owner->options,
		.fetches = &module->owner->fetches,
		.path = module->path,
		.file = module->file,
		.build_id = module->build_id,
		.is_present = module->is_present,
		.names_only = module->failures > 0,
	};
	struct symbols_image *image;

	symbols_limits_begin();
	TRY(symbols_image_open(&request, &image));

	struct error *error = work->first == 0 ? read_whole(work, image, wire)
					       : read_addresses(work, image, wire);

	if (!error)
		error = symbols_wire_end(wire);
	symbols_image_close(image);
	return error;
}

_Noreturn void symbols_reader_run(const struct symbols_round *round, int fd)
{
	struct symbols_wire wire = {.fd = 3, .buffer = STRBUF_EMPTY};
	uint32_t place;

	symbols_child_enter(fd);
	/* libdw would ask on its own. */
	unsetenv("DEBUGINFOD_URLS");
	if (atexit(leave) != 0)
		_exit(1);
	while ((place = atomic_fetch_add(round->next, 1)) < round->works.count) {
		struct error *error = symbols_wire_work(&wire, place);

		if (!error)
			error = read_work(&round->works.items[place], &wire);
		if (error)
			_exit(error->code == ERROR_NO_MEMORY ? SYMBOLS_READER_NO_MEMORY : 1);
	}
	_exit(0);
}
