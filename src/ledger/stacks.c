#include "ledger/stacks.h"

#include <string.h>

#define PENDING    UINT32_MAX
#define PAGE_SHIFT 12
#define PAGE_REFS  (1u << PAGE_SHIFT)

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

/* With the path behind it; NULL = no memory. */
static struct ledger_module *module_copy(const struct ledger_module *module)
{
	struct ledger_module *copy = malloc(sizeof(*copy) + module->path.length + 1);

	if (!copy)
		return NULL;
	char *path = (char *)(copy + 1);

	*copy = *module;
	memcpy(path, module->path.bytes, module->path.length + 1);
	copy->path.bytes = path;
	return copy;
}

static uint64_t module_hash(const struct ledger_module *module)
{
	return map_hash_bytes(module->path.bytes, module->path.length) ^
	       map_hash_bytes(module->build_id, module->build_id_bytes);
}

/* Code in no module is each process's own: it is never found again. */
struct error *ledger_stacks_add_module(struct ledger_stacks *stacks,
				       const struct ledger_module *module)
{
	CLEANUP_FREE struct ledger_module *copy = module_copy(module);

	if (!copy)
		return error_no_memory();
	TRY(vector_push(&stacks->modules, copy));
	(void)STEAL(copy);
	return module->flags & LEDGER_MODULE_NOWHERE
		       ? NULL
		       : map_index_add(&stacks->module_index, module_hash(module),
				       (uint32_t)stacks->modules.count - 1);
}

static struct error *module_intern(struct ledger_stacks *stacks, const struct ledger_module *module,
				   uint32_t *ret)
{
	struct module_key key = {.stacks = stacks, .module = module};

	*ret = map_index_find(&stacks->module_index, module_hash(module), same_module, &key);
	if (*ret != MAP_NONE)
		return NULL;
	*ret = (uint32_t)stacks->modules.count;
	return ledger_stacks_add_module(stacks, module);
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

static uint64_t frame_hash(const struct ledger_frame *frame)
{
	return map_hash(((uint64_t)frame->parent << 32 | frame->module) ^
			map_hash(frame->offset ^ (frame->flags & SAME_FLAGS)));
}

struct error *ledger_stacks_add_frame(struct ledger_stacks *stacks, struct ledger_frame frame)
{
	frame.depth = stacks->frames.items[frame.parent].depth + 1;
	TRY(vector_push(&stacks->frames, frame));
	return map_index_add(&stacks->frame_index, frame_hash(&frame),
			     (uint32_t)stacks->frames.count - 1);
}

static struct error *frame_intern(struct ledger_stacks *stacks, struct ledger_frame frame,
				  uint32_t *ret)
{
	struct frame_key key = {.stacks = stacks, .frame = frame};
	uint32_t at = map_index_find(&stacks->frame_index, frame_hash(&frame), same_frame, &key);

	if (at == MAP_NONE) {
		at = (uint32_t)stacks->frames.count;
		TRY(ledger_stacks_add_frame(stacks, frame));
	}
	stacks->frames.items[at].flags |= frame.flags;
	*ret = at;
	return NULL;
}

struct error *ledger_stacks_init(struct ledger_stacks *stacks)
{
	*stacks = (struct ledger_stacks){0};
	TRY(vector_push(&stacks->frames, (struct ledger_frame){0}));
	return vector_push(&stacks->modules, (struct ledger_module *)NULL);
}

void ledger_stacks_deinit(struct ledger_stacks *stacks)
{
	for (size_t i = 0; i < stacks->modules.count; i++)
		free(stacks->modules.items[i]);
	vector_free(&stacks->frames);
	vector_free(&stacks->modules);
	map_index_free(&stacks->frame_index);
	map_index_free(&stacks->module_index);
}

void ledger_naming_init(struct ledger_naming *naming, struct ledger_stacks *stacks)
{
	*naming = (struct ledger_naming){.stacks = stacks};
}

struct error *ledger_naming_attach(struct ledger_naming *naming, size_t process)
{
	const struct ledger_process *from = ledger_reader_process(naming->stacks->reader, process);

	naming->process = process;
	while (naming->modules.count < from->module_count)
		TRY(vector_push(&naming->modules, 0));
	for (size_t i = 1; i < from->module_count; i++)
		if (from->modules[i].index && !naming->modules.items[i])
			TRY(module_intern(naming->stacks, &from->modules[i],
					  &naming->modules.items[i]));
	return NULL;
}

void ledger_naming_deinit(struct ledger_naming *naming)
{
	vector_free(&naming->modules);
	for (size_t i = 0; i < naming->nodes.count; i++)
		free(naming->nodes.items[i]);
	vector_free(&naming->nodes);
}

/* What is known of a node; NULL = nothing yet. */
static uint32_t *known_of(const struct ledger_naming *naming, uint32_t ref)
{
	uint32_t at = ref >> PAGE_SHIFT;
	uint32_t *page = at < naming->nodes.count ? naming->nodes.items[at] : NULL;

	return page && page[ref % PAGE_REFS] ? &page[ref % PAGE_REFS] : NULL;
}

/* ref: of a node that was read, so there are as many pages at most as the ledger has room. */
static struct error *known_set(struct ledger_naming *naming, uint32_t ref, uint32_t value)
{
	uint32_t at = ref >> PAGE_SHIFT;

	while (at >= naming->nodes.count)
		TRY(vector_push(&naming->nodes, (uint32_t *)NULL));
	if (!naming->nodes.items[at]) {
		naming->nodes.items[at] = calloc(PAGE_REFS, sizeof(**naming->nodes.items));
		if (!naming->nodes.items[at])
			return error_no_memory();
	}
	naming->nodes.items[at][ref % PAGE_REFS] = value;
	return NULL;
}

/* Two processes have other code at one address. */
static struct error *find_nowhere(struct ledger_naming *naming, uint32_t serial)
{
	struct ledger_module module = {
		.index = serial,
		.flags = LEDGER_MODULE_NOWHERE,
		.path = {.bytes = ""},
	};

	if (naming->nowhere)
		return NULL;
	TRY(ledger_stacks_add_module(naming->stacks, &module));
	naming->nowhere = (uint32_t)naming->stacks->modules.count - 1;
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
		.module = naming->modules.items[node->module],
		.offset = node->pc,
		.flags = node->flags,
	};

	if (!node->module && !(node->flags & MGL_NODE_CUT)) {
		TRY(find_nowhere(naming, from->serial));
		frame.module = naming->nowhere;
	}
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

struct naming_path {
	VECTOR(struct pending) steps;
	uint32_t frame;  /* that the last step is below of */
	bool is_damaged; /* it ends where it should not, or goes round */
	bool is_lost;    /* a module of its is not known */
};

/* Outwards to a node that is known, marking the way so that a cycle shows. */
static struct error *walk_out(struct ledger_naming *naming, uint32_t ref, struct naming_path *path)
{
	while (ref) {
		const uint32_t *known = known_of(naming, ref);
		struct pending step = {.ref = ref};

		if (known && *known != PENDING) {
			path->frame = *known - 1;
			return NULL;
		}
		if (known ||
		    !ledger_node_read(naming->stacks->reader, naming->process, ref, &step.node)) {
			path->is_damaged = true;
			return NULL;
		}
		path->is_lost |= step.node.is_lost;
		TRY(known_set(naming, ref, PENDING));
		TRY(vector_push(&path->steps, step));
		ref = step.node.parent;
	}
	return NULL;
}

/* And back in. */
static struct error *name_path(struct ledger_naming *naming, struct naming_path *path)
{
	for (size_t i = path->steps.count; i--;) {
		const struct pending *step = &path->steps.items[i];

		TRY(name_node(naming, &step->node, path->frame, &path->frame));
		TRY(known_set(naming, step->ref, path->frame + 1));
	}
	return NULL;
}

struct error *ledger_naming_frame(struct ledger_naming *naming, uint32_t ref, uint32_t *ret)
{
	struct naming_path path = {.frame = 0};
	struct error *error = walk_out(naming, ref, &path);

	naming->damage += path.is_damaged;
	if (!error)
		error = name_path(naming, &path);
	vector_free(&path.steps);
	*ret = path.frame;
	return error;
}

struct error *ledger_naming_try(struct ledger_naming *naming, uint32_t ref)
{
	struct naming_path path = {.frame = 0};
	struct error *error = walk_out(naming, ref, &path);

	if (!error && !path.is_damaged && !path.is_lost)
		error = name_path(naming, &path);
	else
		for (size_t i = 0; i < path.steps.count; i++)
			*known_of(naming, path.steps.items[i].ref) = 0;
	vector_free(&path.steps);
	return error;
}
