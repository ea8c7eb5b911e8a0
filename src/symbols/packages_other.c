/* Fedora and RHEL, Arch, Void. */
#include "symbols/packages_internal.h"

#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

/* Only rpm itself can read its database. What it prints, up to a bound; "" where there is no
 * rpm. */
static struct error *run_rpm(const struct symbols_packages *packages, const char *path,
			     struct strbuf *ret)
{
	char *const argv[] = {
		"rpm",        "--root", (char *)(*packages->sysroot ? packages->sysroot : "/"),
		"-qf",        "--qf",   "@%{NAME}\n",
		(char *)path, NULL,
	};
	posix_spawn_file_actions_t actions;
	char bytes[4096];
	ssize_t n;
	pid_t pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return error_create_system(errno, NULL, "cannot make a pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);

	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	while (!failed && (n = read(fds[0], bytes, sizeof(bytes))) > 0)
		if (ret->length < sizeof(bytes))
			strbuf_append_bytes(ret, bytes, (size_t)n);
	close(fds[0]);
	while (!failed && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return ret->failed ? error_no_memory() : NULL;
}

static struct error *add_rpm_name(const struct symbols_packages *packages, const char *path,
				  symbols_texts *names)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	TRY(run_rpm(packages, path, &text));
	/* What is said of files that are of no package has no such mark. */
	if (text.length > 1 && text.text[0] == '@') {
		size_t length = strcspn(text.text + 1, "\n");

		if (symbols_is_name(text.text + 1, length))
			return symbols_texts_add(names, text.text + 1, length);
	}
	return NULL;
}

/* A profile may say anything of an id, and this is meant for a shell. */
static struct error *add_id_path(const char *id, symbols_texts *paths)
{
	CLEANUP_STRBUF struct strbuf text = STRBUF_EMPTY;

	if (!id || strlen(id) <= 2 || id[strspn(id, "0123456789abcdef")] != '\0')
		return NULL;
	strbuf_printf(&text, "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
	TRY(strbuf_result(&text));
	return symbols_texts_add(paths, text.text, text.length);
}

static struct error *advise_fedora(const struct symbols_packages *packages, symbols_texts *names,
				   symbols_texts *paths)
{
	for (size_t i = 0; i < packages->count; i++) {
		const struct symbols_missing *missing = &packages->missing[i];
		CLEANUP_FREE char *path = symbols_plain_path(missing->path);
		size_t before = names->count;

		if (!path)
			return error_no_memory();
		TRY(add_rpm_name(packages, path, names));
		if (names->count == before)
			TRY(add_id_path(missing->build_id, paths));
	}
	if (names->count > 0)
		return symbols_advise_command(packages, "dnf debuginfo-install", names);
	/* The packages have their files' names by build-id: dnf finds them by those. */
	if (paths->count > 0)
		return symbols_advise_command(packages, "dnf --enablerepo='*debug*' install",
					      paths);
	return NULL;
}

struct error *symbols_advise_fedora(const struct symbols_packages *packages)
{
	symbols_texts names = VECTOR_EMPTY, paths = VECTOR_EMPTY;
	struct error *error = advise_fedora(packages, &names, &paths);

	symbols_texts_free(&names);
	symbols_texts_free(&paths);
	return error;
}

/* Its debug files are on its debuginfod server alone. */
struct error *symbols_advise_arch(const struct symbols_packages *packages)
{
	const symbols_texts none = VECTOR_EMPTY;

	TRY(symbols_advise_command(packages, "pacman -S --needed debuginfod", &none));
	return symbols_advise_note(packages,
				   "Then log in again: it sets DEBUGINFOD_URLS, and mallograph "
				   "fetches debug files as they are needed.");
}

/* The name of the package whose list of files has the path. */
static struct error *add_void_name(const symbols_texts *lists, const char *path,
				   symbols_texts *names, bool *ret_found)
{
	static const char suffix[] = "-files.plist";
	CLEANUP_STRBUF struct strbuf element = STRBUF_EMPTY, name = STRBUF_EMPTY;

	*ret_found = false;
	strbuf_printf(&element, "<string>%s</string>", path);
	TRY(strbuf_result(&element));
	for (size_t i = 0; i < lists->count && !*ret_found; i++) {
		struct symbols_mapped file = symbols_map_file(lists->items[i]);
		const char *base = strrchr(lists->items[i], '/') + 2; /* past the dot */
		size_t length = strlen(base) - strlen(suffix);

		*ret_found = file.bytes &&
			     memmem(file.bytes, file.length, element.text, element.length) &&
			     symbols_is_name(base, length);
		symbols_unmap_file(&file);
		if (*ret_found)
			strbuf_printf(&name, "%.*s-dbg", (int)length, base);
	}
	TRY(strbuf_result(&name));
	return *ret_found ? symbols_texts_add(names, name.text, name.length) : NULL;
}

static struct error *advise_void(const struct symbols_packages *packages,
				 const symbols_texts *lists, symbols_texts *names)
{
	symbols_texts repositories = VECTOR_EMPTY;
	const symbols_texts none = VECTOR_EMPTY;

	for (size_t i = 0; i < packages->count; i++) {
		CLEANUP_FREE char *path = symbols_plain_path(packages->missing[i].path);
		bool found;

		if (!path)
			return error_no_memory();
		TRY(add_void_name(lists, path, names, &found));
		if (!found)
			TRY(symbols_advise_own(packages, path));
	}
	if (names->count == 0)
		return NULL;
	struct error *error =
		symbols_packages_glob(packages, "/usr/share/xbps.d/*debug*.conf", &repositories);

	if (!error && repositories.count == 0)
		error = symbols_advise_command(packages, "xbps-install -S void-repo-debug", &none);
	symbols_texts_free(&repositories);
	return error ? error : symbols_advise_command(packages, "xbps-install -S", names);
}

struct error *symbols_advise_void(const struct symbols_packages *packages)
{
	symbols_texts lists = VECTOR_EMPTY, names = VECTOR_EMPTY;
	struct error *error =
		symbols_packages_glob(packages, "/var/db/xbps/.*-files.plist", &lists);

	if (!error)
		error = advise_void(packages, &lists, &names);
	symbols_texts_free(&lists);
	symbols_texts_free(&names);
	return error;
}
