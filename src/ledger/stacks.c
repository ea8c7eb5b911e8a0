#include "ledger/stacks.h"

#include <string.h>

#define PENDING    UINT32_MAX
#define PAGE_SHIFT 12
#define PAGE_REFS  (1u << PAGE_SHIFT)
#define PAGES      (UINT32_MAX / PAGE_REFS + 1)

struct module_key {
	const struct ledger_stacks *stacks;
	const struct ledger_module *module;
};

static bool same_module(void *context, uint32_t position)
{
	const struct module_key *key = context;
	const struct ledger_module *is = key->stacks->modules.items[position];
	const struct ledger_module *wanted = key->module;

	return is->path.length == wanted->path.length && is->flags == wanted->flags &&
	       is->build_id_bytes == wanted->build_id_bytes &&
	       memcmp(is->build_id, wanted->build_id, is->build_id_bytes) == 0 &&
	       memcmp(is->path.bytes, wanted->path.bytes, is->path.length) == 0;
}

static struct error *module_intern(struct ledger_stacks *stacks, const struct ledger_module *module,
				   uint32_t *ret)
{
	struct module_key key = {.stacks = stacks, .module = module};
	uint64_t hash = map_hash_bytes(module->path.bytes, module->path.length) ^
			map_hash_bytes(module->build_id, module->build_id_bytes);
	uint32_t at = map_index_find(&stacks->module_index, hash, same_module, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)stacks->modules.count;
		TRY(vector_push(&stacks->modules, module));
		TRY(map_index_add(&stacks->module_index, hash, at));
	}
	*ret = at;
	return NULL;
}

struct frame_key {
	const struct ledger_stacks *stacks;
	struct ledger_frame frame;
};

/* How a frame was found does not make it another one. */
#define SAME_FLAGS (MGL_NODE_EXACT | MGL_NODE_CUT)

static bool same_frame(void *context, uint32_t position)
{
	const struct frame_key *key = context;
	const struct ledger_frame *is = &key->stacks->frames.items[position];

	return is->parent == key->frame.parent && is->module == key->frame.module &&
	       is->offset == key->frame.offset && !((is->flags ^ key->frame.flags) & SAME_FLAGS);
}

static struct error *frame_intern(struct ledger_stacks *stacks, struct ledger_frame frame,
				  uint32_t *ret)
{
	struct frame_key key = {.stacks = stacks, .frame = frame};
	uint64_t hash = map_hash(((uint64_t)frame.parent << 32 | frame.module) ^
				 map_hash(frame.offset ^ (frame.flags & SAME_FLAGS)));
	uint32_t at = map_index_find(&stacks->frame_index, hash, same_frame, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)stacks->frames.count;
		TRY(vector_push(&stacks->frames, frame));
		TRY(map_index_add(&stacks->frame_index, hash, at));
	}
	stacks->frames.items[at].flags |= frame.flags;
	*ret = at;
	return NULL;
}

struct error *ledger_stacks_init(struct ledger_stacks *stacks, struct ledger_reader *reader)
{
	*stacks = (struct ledger_stacks){.reader = reader};
	TRY(vector_push(&stacks->frames, (struct ledger_frame){0}));
	return vector_push(&stacks->modules, (const struct ledger_module *)NULL);
}

void ledger_stacks_deinit(struct ledger_stacks *stacks)
{
	vector_free(&stacks->frames);
	vector_free(&stacks->modules);
	map_index_free(&stacks->frame_index);
	map_index_free(&stacks->module_index);
}

struct error *ledger_naming_init(struct ledger_naming *naming, struct ledger_stacks *stacks,
				 size_t process)
{
	const struct ledger_process *from = ledger_reader_process(stacks->reader, process);

	*naming = (struct ledger_naming){.stacks = stacks, .process = process};
	naming->modules = calloc(from->module_count + 1, sizeof(*naming->modules));
	naming->nodes = calloc(PAGES, sizeof(*naming->nodes));
	if (!naming->modules || !naming->nodes)
		return error_no_memory();
	for (size_t i = 1; i < from->module_count; i++)
		if (from->modules[i].index)
			TRY(module_intern(stacks, &from->modules[i], &naming->modules[i]));
	return NULL;
}

void ledger_naming_deinit(struct ledger_naming *naming)
{
	free(naming->modules);
	for (size_t i = 0; naming->nodes && i < naming->page_end; i++)
		free(naming->nodes[i]);
	free(naming->nodes);
}

/* What is known of a node; NULL = nothing yet. */
static uint32_t *known_of(const struct ledger_naming *naming, uint32_t ref)
{
	uint32_t *page = naming->nodes[ref >> PAGE_SHIFT];

	return page && page[ref % PAGE_REFS] ? &page[ref % PAGE_REFS] : NULL;
}

/* ref: of a node that was read, so there are as many pages at most as the ledger has room. */
static struct error *known_set(struct ledger_naming *naming, uint32_t ref, uint32_t value)
{
	uint32_t at = ref >> PAGE_SHIFT;

	if (!naming->nodes[at]) {
		naming->nodes[at] = calloc(PAGE_REFS, sizeof(**naming->nodes));
		if (!naming->nodes[at])
			return error_no_memory();
		if (at >= naming->page_end)
			naming->page_end = at + 1;
	}
	naming->nodes[at][ref % PAGE_REFS] = value;
	return NULL;
}

/* The frame of one node whose parent's is known. */
static struct error *name_node(struct ledger_naming *naming, const struct ledger_node *node,
			       uint32_t parent, uint32_t *ret)
{
	struct ledger_stacks *stacks = naming->stacks;
	const struct ledger_process *from = ledger_reader_process(stacks->reader, naming->process);
	struct ledger_frame frame = {
		.parent = parent,
		.module = naming->modules[node->module],
		.offset = node->pc,
		.flags = node->flags,
		.depth = stacks->frames.items[parent].depth + 1,
	};

	if (node->module) {
		if (from->modules[node->module].flags & MGL_MODULE_AGENT) {
			*ret = parent;
			return NULL;
		}
		frame.offset -= from->modules[node->module].bias;
	}
	return frame_intern(stacks, frame, ret);
}

struct pending {
	uint32_t ref;
	struct ledger_node node;
};

struct error *ledger_naming_frame(struct ledger_naming *naming, uint32_t ref, uint32_t *ret)
{
	VECTOR(struct pending) path = VECTOR_EMPTY;
	struct error *error = NULL;
	uint32_t frame = 0;

	/* Outwards to a node that is known, marking the way so that a cycle shows. */
	while (ref && !error) {
		const uint32_t *known = known_of(naming, ref);
		struct pending step = {.ref = ref};

		if (known && *known != PENDING) {
			frame = *known - 1;
			break;
		}
		if (known ||
		    !ledger_node_read(naming->stacks->reader, naming->process, ref, &step.node)) {
			naming->damage++;
			break;
		}
		error = known_set(naming, ref, PENDING);
		if (!error)
			error = vector_push(&path, step);
		ref = step.node.parent;
	}
	/* And back in. */
	for (size_t i = path.count; i-- && !error;) {
		error = name_node(naming, &path.items[i].node, frame, &frame);
		if (!error)
			error = known_set(naming, path.items[i].ref, frame + 1);
	}
	vector_free(&path);
	*ret = frame;
	return error;
}
