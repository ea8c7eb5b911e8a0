#include "agent/inner.h"

#include <string.h>

#include "agent/inner_looked.h"
#include "agent/program_path.h"
#include "agent/seccomp.h"

void inner_tell_from(struct thread *t, size_t from)
{
	struct mgl_process *p = t->process;
	const char *refused = inner_refused.text;

	for (size_t at = from; at < inner_refused.bytes; at += strlen(refused + at) + 1)
		agent_name_loss(t, MGL_LOSS_OWN_MALLOC, refused + at, strlen(refused + at));
	uint64_t ref = record_blob(t, inner_found.text, inner_found.bytes);

	if (ref)
		atomic_store(&p->inner, ref << 32 | inner_found.bytes);
}

void inner_tell(struct thread *t) { inner_tell_from(t, 0); }

/* The C and C++ libraries' own, which are reached, and the loader's, which is not the program's. */
static bool is_known(const char *soname)
{
	static const char *const known[] = {
		"ld-linux",    "libc.so.",   "libm.so.",      "libdl.so.",   "librt.so.",
		"libpthread.", "libgcc_s.",  "libstdc++.so.", "libc++.so.",  "libc++abi.so.",
		"libasan.so.", "libtsan.so", "liblsan.so.",   "libhwasan.so"};

	for (uint32_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strncmp(soname, known[i], strlen(known[i])) == 0)
			return true;
	}
	return false;
}

/* The loader is yet to change the code, which would be moved by then. */
static bool has_relocated_text(const struct link_map *map)
{
	for (const Elf64_Dyn *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_TEXTREL ||
		    (d->d_tag == DT_FLAGS && (d->d_un.d_val & DF_TEXTREL)))
			return true;
	}
	return false;
}

void inner_forget(void)
{
	if (!inner_looked.is_open || inner_looked.is_relocated)
		return;
	for (uint32_t i = 0; i < SYMTAB_TEXTS; i++)
		patch_forget(inner_looked.symtab.text[i].start, inner_looked.symtab.text[i].stop);
}

void inner_look_at(const struct link_map *map, const char *path)
{
	bool others = false;

	/* The kernel's own has a name without a file. */
	inner_looked.path = path;
	if (!path || !strchr(path, '/') || !image_open(&inner_looked.image, map) ||
	    is_known(image_soname(&inner_looked.image)))
		return;
	inner_looked.is_open = !agent_filtered_files &&
			       (inner_looked.is_relocated || !has_relocated_text(map)) &&
			       (symtab_open(&inner_looked.symtab, path, map) ||
				(inner_looked.is_program &&
				 symtab_open(&inner_looked.symtab, "/proc/self/exe", map)));
	inner_forget();
	inner_find();
	for (uint32_t f = 0; f < INNER_FAMILIES && inner_looked.count; f++) {
		if (inner_is_family((enum inner_family)f, others))
			others |= inner_change((enum inner_family)f);
	}
	if (inner_looked.is_open)
		symtab_close(&inner_looked.symtab);
}

void inner_start(void)
{
	static char program[INNER_TOLD_BYTES];
	const struct link_map *first = image_first();
	uint32_t n = 0;
	long bytes = program_path(program, sizeof(program) - 1);

	if (!hooks_inner_entry)
		return;
	program[bytes > 0 ? bytes : 0] = '\0';
	inner_looked.is_relocated = true;
	for (const struct link_map *map = first; map && n < IMAGE_MAX_MODULES;
	     map = map->l_next, n++) {
		inner_looked.is_program = map == first;
		if (!image_is_agent(map))
			inner_look_at(map, inner_looked.is_program ? program : map->l_name);
	}
}
