/* Frames and modules: the session's canonical ones, copied out of its reader. */
#include "analyze/model_internal.h"

#include <string.h>

struct error *analyze_text_copy(struct analyze_text *to, const struct ledger_text *from)
{
	to->bytes = malloc(from->length + 1);
	if (!to->bytes)
		return error_no_memory();
	memcpy(to->bytes, from->bytes, from->length);
	to->bytes[from->length] = '\0';
	to->length = from->length;
	return NULL;
}

static uint32_t frame_flags(uint32_t node_flags)
{
	return (node_flags & MGL_NODE_EXACT ? ANALYZE_FRAME_EXACT : 0) |
	       (node_flags & MGL_NODE_FP ? ANALYZE_FRAME_FP : 0) |
	       (node_flags & MGL_NODE_CUT ? ANALYZE_FRAME_CUT : 0);
}

static struct error *copy_modules(const struct ledger_stacks *stacks, struct analyze_model *model)
{
	model->modules = calloc(stacks->modules.count, sizeof(*model->modules));
	if (!model->modules)
		return error_no_memory();
	model->module_count = stacks->modules.count;
	for (size_t i = 1; i < stacks->modules.count; i++) {
		const struct ledger_module *from = stacks->modules.items[i];
		struct analyze_module *to = &model->modules[i];

		TRY(analyze_text_copy(&to->path, &from->path));
		memcpy(to->build_id, from->build_id, sizeof(to->build_id));
		to->build_id_bytes = from->build_id_bytes;
		to->flags = from->flags;
	}
	return NULL;
}

struct error *analyze_frames_copy(const struct ledger_stacks *stacks, struct analyze_model *model)
{
	TRY(copy_modules(stacks, model));
	model->frames = calloc(stacks->frames.count, sizeof(*model->frames));
	if (!model->frames)
		return error_no_memory();
	model->frame_count = stacks->frames.count;
	for (size_t i = 1; i < stacks->frames.count; i++) {
		const struct ledger_frame *from = &stacks->frames.items[i];

		model->frames[i] = (struct analyze_frame){
			.parent = from->parent,
			.module = from->module,
			.offset = from->offset,
			.flags = frame_flags(from->flags),
			.depth = from->depth,
		};
	}
	return NULL;
}
