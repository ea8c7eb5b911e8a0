#include "symbols/receiver.h"

#include <string.h>

#include "base/cursor.h"
#include "symbols/wire.h"

void symbols_receiver_init(struct symbols_receiver *receiver, struct symbols_round *round)
{
	*receiver = (struct symbols_receiver){
		.round = round,
		.input = STRBUF_EMPTY,
		.work = SYMBOLS_NO_WORK,
	};
}

void symbols_receiver_free(struct symbols_receiver *receiver)
{
	strbuf_free(&receiver->input);
	vector_free(&receiver->strings);
}

/* One it never sent is none. */
static const char *string_at(const struct symbols_receiver *receiver, uint32_t number)
{
	return number > 0 && number <= receiver->strings.count ? receiver->strings.items[number - 1]
							       : NULL;
}

static struct error *take_frames(struct symbols_receiver *receiver, const struct symbols_work *work,
				 struct cursor *payload)
{
	struct symbols_module *module = work->module;
	uint32_t place = cursor_u32(payload);
	size_t count = cursor_left(payload) / SYMBOLS_WIRE_FRAME;

	if (payload->failed || place < work->first || place >= work->end ||
	    module->addresses.items[place].is_done ||
	    count * SYMBOLS_WIRE_FRAME != cursor_left(payload) ||
	    module->frames.count + count > UINT32_MAX) {
		receiver->is_garbled = true;
		return NULL;
	}
	TRY(vector_reserve(&module->frames, count));

	struct symbols_address *address = &module->addresses.items[place];

	address->first = (uint32_t)module->frames.count;
	address->count = (uint32_t)count;
	address->is_done = true;
	receiver->round->symbols->counts.addresses_read++;
	for (size_t i = 0; i < count; i++) {
		struct symbols_frame *frame = &module->frames.items[module->frames.count++];

		frame->function = string_at(receiver, cursor_u32(payload));
		frame->file = string_at(receiver, cursor_u32(payload));
		frame->line = cursor_u32(payload);
		frame->column = cursor_u32(payload);
		frame->inlined = cursor_u8(payload) != 0;
	}
	return NULL;
}

static void take_verdict(struct symbols_receiver *receiver, struct symbols_module *module,
			 struct cursor *payload)
{
	uint8_t level = cursor_u8(payload);

	module->verdict.reason = string_at(receiver, cursor_u32(payload));
	module->verdict.debug_file = string_at(receiver, cursor_u32(payload));
	module->verdict.build_id = string_at(receiver, cursor_u32(payload));
	module->verdict.level = level;
	if (payload->failed || level < SYMBOLS_NONE || level > SYMBOLS_FULL) {
		module->verdict.level = SYMBOLS_NONE;
		receiver->is_garbled = true;
	}
}

static struct error *take_try(struct symbols_receiver *receiver, struct symbols_module *module,
			      struct cursor *payload)
{
	struct symbols_try tried = {0};
	uint8_t place = cursor_u8(payload), outcome = cursor_u8(payload);

	tried.identity.exists = cursor_u8(payload) != 0;
	tried.path = string_at(receiver, cursor_u32(payload));
	tried.detail = string_at(receiver, cursor_u32(payload));
	tried.identity.device = cursor_u64(payload);
	tried.identity.inode = cursor_u64(payload);
	tried.identity.size = cursor_u64(payload);
	tried.identity.mtime_ns = (int64_t)cursor_u64(payload);
	if (payload->failed || !tried.path || place < 1 || place > SYMBOLS_PLACE_LAST ||
	    outcome < 1 || outcome > SYMBOLS_OUTCOME_LAST ||
	    module->tries.count >= SYMBOLS_TRACE_MAX) {
		receiver->is_garbled = true;
		return NULL;
	}
	tried.place = place;
	tried.outcome = outcome;
	return vector_push(&module->tries, tried);
}

static struct error *take_wanted(struct symbols_receiver *receiver, struct symbols_module *module,
				 struct cursor *payload)
{
	struct symbols_build_id id = {.count = cursor_left(payload)};

	if (id.count == 0 || id.count > sizeof(id.bytes) ||
	    module->wanted.count >= SYMBOLS_WANTED_MAX) {
		receiver->is_garbled = true;
		return NULL;
	}
	cursor_copy(payload, id.bytes, id.count);
	return vector_push(&module->wanted, id);
}

static struct error *take_string(struct symbols_receiver *receiver, struct cursor *payload)
{
	size_t length = cursor_left(payload);
	const char *text;

	TRY(symbols_intern(receiver->round->symbols, cursor_bytes(payload, length), length, &text));
	return vector_push(&receiver->strings, text);
}

/* What a reader that died at a module says of it, put before what the next one says. */
static struct error *explain_failure(struct symbols *symbols, struct symbols_module *module)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (!module->failure)
		return NULL;
	strbuf_append(&text, module->failure);
	if (module->verdict.reason)
		strbuf_printf(&text, "; %s", module->verdict.reason);
	TRY(strbuf_result(&text));
	return symbols_intern(symbols, text.text, text.length, &module->verdict.reason);
}

struct error *symbols_receiver_finish_module(struct symbols_receiver *receiver,
					     struct symbols_module *module)
{
	for (size_t i = 0; i < module->addresses.count; i++)
		module->addresses.items[i].is_done = true;
	module->is_dirty = false;
	module->is_read = true;
	receiver->round->symbols->counts.modules_read++;
	return explain_failure(receiver->round->symbols, module);
}

static void start_work(struct symbols_receiver *receiver, struct cursor *payload)
{
	uint32_t place = cursor_u32(payload);

	receiver->strings.count = 0;
	if (payload->failed || place >= receiver->round->works.count ||
	    receiver->work != SYMBOLS_NO_WORK ||
	    !receiver->round->works.items[place].module->is_dirty) {
		receiver->is_garbled = true;
		return;
	}
	struct symbols_work *work = &receiver->round->works.items[place];

	receiver->work = place;
	if (work->first > 0)
		return;
	work->module->tries.count = 0;
	work->module->wanted.count = 0;
	work->module->has_all_tries = false;
	work->module->is_cut = false;
}

static struct error *end_work(struct symbols_receiver *receiver, const struct symbols_work *work)
{
	struct symbols_module *module = work->module;

	if (work->first == 0 && module->verdict.level == SYMBOLS_PENDING) {
		receiver->is_garbled = true;
		return NULL;
	}
	if (work->first == 0)
		module->has_all_tries = true;
	receiver->work = SYMBOLS_NO_WORK;
	receiver->round->progress++;
	return --module->works_left > 0 ? NULL : symbols_receiver_finish_module(receiver, module);
}

/* What the first work of a module tells of all of it. */
static struct error *take_whole(struct symbols_receiver *receiver, struct symbols_module *module,
				uint8_t kind, struct cursor *payload)
{
	switch (kind) {
	case SYMBOLS_WIRE_VERDICT:
		take_verdict(receiver, module, payload);
		return NULL;
	case SYMBOLS_WIRE_TRY:
		return take_try(receiver, module, payload);
	case SYMBOLS_WIRE_WANTED:
		return take_wanted(receiver, module, payload);
	case SYMBOLS_WIRE_CUT:
		module->is_cut = true;
		return NULL;
	default:
		receiver->is_garbled = true;
		return NULL;
	}
}

static struct error *take_record(struct symbols_receiver *receiver, uint8_t kind,
				 struct cursor payload)
{
	const struct symbols_work *work = receiver->work != SYMBOLS_NO_WORK
						  ? &receiver->round->works.items[receiver->work]
						  : NULL;

	if (kind == SYMBOLS_WIRE_WORK) {
		start_work(receiver, &payload);
		return NULL;
	}
	switch (work ? kind : 0) {
	case SYMBOLS_WIRE_STRING:
		return take_string(receiver, &payload);
	case SYMBOLS_WIRE_FRAMES:
		return take_frames(receiver, work, &payload);
	case SYMBOLS_WIRE_END:
		return end_work(receiver, work);
	default:
		break;
	}
	if (work && work->first == 0)
		return take_whole(receiver, work->module, kind, &payload);
	receiver->is_garbled = true;
	return NULL;
}

/* Every whole record that has come. */
static struct error *take_records(struct symbols_receiver *receiver)
{
	struct cursor input = cursor_over(receiver->input.text, receiver->input.length);

	while (cursor_left(&input) >= SYMBOLS_WIRE_HEAD && !receiver->is_garbled) {
		size_t start = input.at;
		uint32_t bytes = cursor_u32(&input);
		uint8_t kind = cursor_u8(&input);

		if (bytes > SYMBOLS_WIRE_STRING_MAX) {
			receiver->is_garbled = true;
		} else if (bytes > cursor_left(&input)) {
			cursor_seek(&input, start);
			break;
		} else {
			const void *payload = cursor_bytes(&input, bytes);

			TRY(take_record(receiver, kind, cursor_over(payload, bytes)));
		}
	}
	size_t left = cursor_left(&input);

	memmove(receiver->input.text, receiver->input.text + input.at, left);
	receiver->input.length = left;
	return NULL;
}

struct error *symbols_receiver_take(struct symbols_receiver *receiver, const void *bytes,
				    size_t count)
{
	if (receiver->is_garbled)
		return NULL;
	strbuf_append_bytes(&receiver->input, bytes, count);
	TRY(strbuf_result(&receiver->input));
	return take_records(receiver);
}
