#include "collect/files.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/map.h"
#include "base/strbuf.h"
#include "base/vector.h"

#define DELETED " (deleted)"
#define KEPT    32u /* descriptors, for everything else */

struct held {
	char *path;
	uint8_t build_id[32]; /* as recorded */
	uint32_t build_id_bytes;
	int fd;
};

struct collect_files {
	VECTOR(struct held) list;
	struct map_index index; /* by path: the newest of it */
	size_t limit;
};

struct error *collect_files_create(struct collect_files **ret)
{
	struct collect_files *files = calloc(1, sizeof(*files));
	struct rlimit limit;

	if (!files)
		return error_no_memory();
	files->limit = COLLECT_FILES;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 4 * COLLECT_FILES + KEPT)
		files->limit = limit.rlim_cur > KEPT ? (size_t)(limit.rlim_cur - KEPT) / 4 : 0;
	*ret = files;
	return NULL;
}

void collect_files_free(struct collect_files *files)
{
	if (!files)
		return;
	for (size_t i = 0; i < files->list.count; i++) {
		close(files->list.items[i].fd);
		free(files->list.items[i].path);
	}
	vector_free(&files->list);
	map_index_free(&files->index);
	free(files);
}

struct wanted {
	const struct collect_files *files;
	const char *path;
	const uint8_t *build_id;
	uint32_t build_id_bytes;
};

/* One that was opened before its build-id was known may be of any. */
static bool is_wanted(void *context, uint32_t position)
{
	const struct wanted *wanted = context;
	const struct held *held = &wanted->files->list.items[position];

	return strcmp(held->path, wanted->path) == 0 &&
	       (held->build_id_bytes == 0 ||
		(held->build_id_bytes == wanted->build_id_bytes &&
		 memcmp(held->build_id, wanted->build_id, held->build_id_bytes) == 0));
}

static uint32_t find(const struct wanted *wanted)
{
	return map_index_find(&wanted->files->index,
			      map_hash_bytes(wanted->path, strlen(wanted->path)), is_wanted,
			      (void *)(uintptr_t)wanted);
}

/* Takes the descriptor. */
static struct error *hold(struct collect_files *files, const struct wanted *what, int fd)
{
	CLEANUP_FD int owned = fd;
	CLEANUP_FREE char *path = strdup(what->path);
	struct held held = {.fd = fd, .build_id_bytes = what->build_id_bytes};

	if (!path)
		return error_no_memory();
	held.path = path;
	memcpy(held.build_id, what->build_id, what->build_id_bytes);
	TRY(vector_push(&files->list, held));
	(void)STEAL(path);
	cleanup_steal_fd(&owned);
	return map_index_add(&files->index, map_hash_bytes(held.path, strlen(held.path)),
			     (uint32_t)files->list.count - 1);
}

/* A regular file; anything else might wait. */
static int open_file(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* As the process itself sees its files; what it maps when that has no name any more. */
static int open_module(const struct ledger_process *process, const struct ledger_module *module,
		       const char *path, bool is_deleted)
{
	CLEANUP_STRBUF struct strbuf name = STRBUF_EMPTY;
	bool is_program = module->path.length == process->exe.length &&
			  memcmp(module->path.bytes, process->exe.bytes, process->exe.length) == 0;
	int fd = -1;

	if (!is_deleted) {
		strbuf_printf(&name, "/proc/%d/root%s", process->pid, path);
		fd = name.failed ? -1 : open_file(name.text);
	}
	if (fd < 0) {
		strbuf_clear(&name);
		if (is_program)
			strbuf_printf(&name, "/proc/%d/exe", process->pid);
		else
			strbuf_printf(&name, "/proc/%d/map_files/%llx-%llx", process->pid,
				      (unsigned long long)module->start,
				      (unsigned long long)module->stop);
		fd = name.failed ? -1 : open_file(name.text);
	}
	return fd;
}

/* The path without what the kernel puts behind that of a file that is gone. */
static char *plain_path(const struct ledger_module *module, bool *ret_deleted)
{
	size_t length = module->path.length, mark = strlen(DELETED);
	const char *path = module->path.bytes;

	*ret_deleted = length > mark && memcmp(path + length - mark, DELETED, mark) == 0 &&
		       access(path, F_OK) != 0;
	return strndup(path, *ret_deleted ? length - mark : length);
}

struct error *collect_files_add(struct collect_files *files, const char *path)
{
	CLEANUP_FREE char *real = realpath(path, NULL);
	struct wanted wanted = {.files = files, .path = real, .build_id = (const uint8_t *)""};
	int fd = real ? open_file(real) : -1;

	return fd < 0 ? NULL : hold(files, &wanted, fd);
}

static struct error *see(struct collect_files *files, const struct ledger_process *process,
			 const struct ledger_module *module)
{
	bool is_deleted;
	CLEANUP_FREE char *path = plain_path(module, &is_deleted);
	struct wanted wanted = {files, path, module->build_id, module->build_id_bytes};

	if (!path)
		return error_no_memory();
	if (path[0] != '/' || find(&wanted) != MAP_NONE || files->list.count >= files->limit)
		return NULL;
	int fd = open_module(process, module, path, is_deleted);

	return fd < 0 ? NULL : hold(files, &wanted, fd);
}

struct error *collect_files_see(struct collect_files *files, const struct ledger_process *process,
				size_t from)
{
	for (size_t i = from; i < process->module_count; i++) {
		const struct ledger_module *module = &process->modules[i];

		if (module->index && !(module->flags & (MGL_MODULE_AGENT | MGL_MODULE_VDSO)))
			TRY(see(files, process, module));
	}
	return NULL;
}

struct error *collect_files_find(const struct collect_files *files,
				 const struct ledger_module *module, char **ret)
{
	struct stat now, then;
	bool is_deleted;
	CLEANUP_FREE char *path = plain_path(module, &is_deleted);
	struct wanted wanted = {files, path, module->build_id, module->build_id_bytes};
	uint32_t at = path && files ? find(&wanted) : MAP_NONE;

	*ret = NULL;
	if (!path)
		return error_no_memory();
	if (at == MAP_NONE || fstat(files->list.items[at].fd, &then) != 0)
		return NULL;
	if (!is_deleted && stat(path, &now) == 0 && now.st_dev == then.st_dev &&
	    now.st_ino == then.st_ino)
		return NULL;
	if (asprintf(ret, "/proc/%d/fd/%d", (int)getpid(), files->list.items[at].fd) < 0) {
		*ret = NULL;
		return error_no_memory();
	}
	return NULL;
}

/* Up to its last segment or section header. */
static size_t vdso_bytes(const Elf64_Ehdr *head)
{
	const Elf64_Phdr *segments = (const void *)((const char *)head + head->e_phoff);
	uint64_t end = head->e_shoff + (uint64_t)head->e_shnum * head->e_shentsize;

	for (unsigned int i = 0; i < head->e_phnum; i++)
		if (segments[i].p_offset + segments[i].p_filesz > end)
			end = segments[i].p_offset + segments[i].p_filesz;
	return (size_t)end;
}

struct error *collect_vdso_path(int *fd, char **ret)
{
	const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);

	*ret = NULL;
	if (!image)
		return NULL;
	if (*fd < 0) {
		size_t bytes = vdso_bytes((const void *)image);

		*fd = memfd_create("vdso", MFD_CLOEXEC);
		if (*fd < 0)
			return NULL;
		if (write(*fd, image, bytes) != (ssize_t)bytes) {
			close(*fd);
			*fd = -1;
			return NULL;
		}
	}
	if (asprintf(ret, "/proc/%d/fd/%d", (int)getpid(), *fd) < 0) {
		*ret = NULL;
		return error_no_memory();
	}
	return NULL;
}
