/*
 * Canonical frames. The same stack may stand in a ledger more than once: two threads made
 * its nodes at the same time, or its library was unloaded and came back elsewhere.
 * Modules are equal by path and build-id, frames by parent, module and offset.
 */
#include "analyze/model_internal.h"

#include <string.h>

#define PENDING UINT64_MAX

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

struct module_key {
	const struct builder *builder;
	const struct ledger_module *module;
};

static bool same_module(void *context, uint32_t position)
{
	const struct module_key *key = context;
	const struct analyze_module *is = &key->builder->modules.items[position];
	const struct ledger_module *wanted = key->module;

	return is->path.length == wanted->path.length && is->flags == wanted->flags &&
	       is->build_id_bytes == wanted->build_id_bytes &&
	       memcmp(is->build_id, wanted->build_id, is->build_id_bytes) == 0 &&
	       memcmp(is->path.bytes, wanted->path.bytes, is->path.length) == 0;
}

static struct error *module_intern(struct builder *builder, const struct ledger_module *module,
				   uint32_t *ret)
{
	struct module_key key = {.builder = builder, .module = module};
	uint64_t hash = map_hash_bytes(module->path.bytes, module->path.length) ^
			map_hash_bytes(module->build_id, module->build_id_bytes);
	uint32_t at = map_index_find(&builder->module_index, hash, same_module, &key);

	if (at == MAP_NONE) {
		struct analyze_module made = {
			.flags = module->flags,
			.build_id_bytes = module->build_id_bytes,
		};

		memcpy(made.build_id, module->build_id, sizeof(made.build_id));
		TRY(analyze_text_copy(&made.path, &module->path));
		struct error *error = vector_push(&builder->modules, made);

		if (error) {
			free(made.path.bytes);
			return error;
		}
		at = (uint32_t)builder->modules.count - 1;
		TRY(map_index_add(&builder->module_index, hash, at));
	}
	*ret = at;
	return NULL;
}

struct frame_key {
	const struct builder *builder;
	struct analyze_frame frame;
};

/* How a frame was found does not make it another one. */
#define SAME_FLAGS (ANALYZE_FRAME_EXACT | ANALYZE_FRAME_CUT)

static bool same_frame(void *context, uint32_t position)
{
	const struct frame_key *key = context;
	const struct analyze_frame *is = &key->builder->frames.items[position];

	return is->parent == key->frame.parent && is->module == key->frame.module &&
	       is->offset == key->frame.offset && !((is->flags ^ key->frame.flags) & SAME_FLAGS);
}

static struct error *frame_intern(struct builder *builder, struct analyze_frame frame,
				  uint32_t *ret)
{
	struct frame_key key = {.builder = builder, .frame = frame};
	uint64_t hash = map_hash(((uint64_t)frame.parent << 32 | frame.module) ^
				 map_hash(frame.offset ^ (frame.flags & SAME_FLAGS)));
	uint32_t at = map_index_find(&builder->frame_index, hash, same_frame, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)builder->frames.count;
		TRY(vector_push(&builder->frames, frame));
		TRY(map_index_add(&builder->frame_index, hash, at));
	}
	builder->frames.items[at].flags |= frame.flags;
	*ret = at;
	return NULL;
}

struct error *analyze_naming_init(struct naming *naming, struct builder *builder, size_t process)
{
	const struct ledger_process *from = ledger_reader_process(builder->reader, process);

	*naming = (struct naming){.builder = builder, .process = process};
	naming->modules = calloc(from->module_count + 1, sizeof(*naming->modules));
	if (!naming->modules)
		return error_no_memory();
	for (size_t i = 1; i < from->module_count; i++)
		if (from->modules[i].index)
			TRY(module_intern(builder, &from->modules[i], &naming->modules[i]));
	return NULL;
}

void analyze_naming_deinit(struct naming *naming)
{
	free(naming->modules);
	map_u64_free(&naming->nodes);
}

static uint32_t frame_flags(uint32_t node_flags)
{
	return (node_flags & MGL_NODE_EXACT ? ANALYZE_FRAME_EXACT : 0) |
	       (node_flags & MGL_NODE_FP ? ANALYZE_FRAME_FP : 0) |
	       (node_flags & MGL_NODE_CUT ? ANALYZE_FRAME_CUT : 0);
}

/* The frame of one node whose parent's is known. */
static struct error *name_node(struct naming *naming, const struct ledger_node *node,
			       uint32_t parent, uint32_t *ret)
{
	struct builder *builder = naming->builder;
	const struct ledger_process *from = ledger_reader_process(builder->reader, naming->process);
	struct analyze_frame frame = {
		.parent = parent,
		.module = naming->modules[node->module],
		.offset = node->pc,
		.flags = frame_flags(node->flags),
		.depth = builder->frames.items[parent].depth + 1,
	};

	if (node->module) {
		if (from->modules[node->module].flags & MGL_MODULE_AGENT) {
			*ret = parent;
			return NULL;
		}
		frame.offset -= from->modules[node->module].bias;
	}
	return frame_intern(builder, frame, ret);
}

struct pending {
	uint32_t ref;
	struct ledger_node node;
};

struct error *analyze_naming_frame(struct naming *naming, uint32_t ref, uint32_t *ret)
{
	VECTOR(struct pending) path = VECTOR_EMPTY;
	struct error *error = NULL;
	uint32_t frame = 0;

	/* Outwards to a node that is known, marking the way so that a cycle shows. */
	while (ref && !error) {
		const uint64_t *known = map_u64_find(&naming->nodes, ref);
		struct pending step = {.ref = ref};

		if (known && *known != PENDING) {
			frame = (uint32_t)*known;
			break;
		}
		if (known ||
		    !ledger_node_read(naming->builder->reader, naming->process, ref, &step.node)) {
			naming->damage++;
			break;
		}
		error = map_u64_set(&naming->nodes, ref, PENDING);
		if (!error)
			error = vector_push(&path, step);
		ref = step.node.parent;
	}
	/* And back in. */
	for (size_t i = path.count; i-- && !error;) {
		error = name_node(naming, &path.items[i].node, frame, &frame);
		if (!error)
			error = map_u64_set(&naming->nodes, path.items[i].ref, frame);
	}
	vector_free(&path);
	*ret = frame;
	return error;
}
