/*
 * Debian and Ubuntu. Which package a file is of stands in dpkg's lists. Its debug files are in
 * PACKAGE-dbgsym, in an archive of its own that is seldom enabled; of a few packages in -dbg.
 * Where APT knows the archive, its lists name the package by build-id.
 */
#include "symbols/packages_internal.h"

#include <string.h>

struct debian {
	const struct symbols_packages *packages;
	symbols_texts lists; /* dpkg's */
	symbols_texts apt;   /* APT's lists of packages */
	symbols_texts names; /* to be installed */
	bool needs_archive;  /* one of them is in the archive of debug files, which is not known */
};

static void debian_free(struct debian *debian)
{
	symbols_texts_free(&debian->lists);
	symbols_texts_free(&debian->apt);
	symbols_texts_free(&debian->names);
}

static bool has_line(const struct symbols_mapped *file, const char *line)
{
	size_t length = strlen(line);
	const char *at = file->bytes, *end = file->bytes + file->length;

	while ((at = memmem(at, (size_t)(end - at), line, length)) != NULL) {
		if ((at == file->bytes || at[-1] == '\n') &&
		    (at + length == end || at[length] == '\n'))
			return true;
		at++;
	}
	return false;
}

/* Before /bin, /lib and their kin moved to /usr, and where lists still have it so. */
static const char *other_path(const char *path, struct strbuf *buffer)
{
	if (strncmp(path, "/usr/", 5) == 0)
		return path + 4;
	strbuf_printf(buffer, "/usr%s", path);
	return buffer->failed ? path : buffer->text;
}

/* "PACKAGE:ARCH.list" → PACKAGE; "" = none. */
static struct error *owner_of(const struct debian *debian, const char *path, struct strbuf *ret)
{
	CLEANUP_STRBUF struct strbuf buffer = STRBUF_EMPTY;
	const char *other = other_path(path, &buffer);

	for (size_t i = 0; i < debian->lists.count; i++) {
		struct symbols_mapped file = symbols_map_file(debian->lists.items[i]);
		const char *name = strrchr(debian->lists.items[i], '/') + 1;
		size_t length = strcspn(name, ":");
		bool found = file.bytes && (has_line(&file, path) || has_line(&file, other));

		symbols_unmap_file(&file);
		if (!found)
			continue;
		if (name[length] != ':' && length > strlen(".list"))
			length -= strlen(".list");
		if (symbols_is_name(name, length))
			strbuf_append_bytes(ret, name, length);
		break;
	}
	return strbuf_result(ret);
}

/* The name before a place in a list of packages. */
static bool package_at(const struct symbols_mapped *file, const char *at, struct strbuf *ret)
{
	static const char field[] = "Package: ";
	const size_t length = strlen(field);

	for (; at > file->bytes; at--) {
		if (at[-1] == '\n' && (size_t)(file->bytes + file->length - at) > length &&
		    memcmp(at, field, length) == 0)
			break;
		if (at[0] == '\n' && at[-1] == '\n')
			return false;
	}
	if (memcmp(at, field, length) != 0)
		return false;
	at += length;
	const char *end = memchr(at, '\n', (size_t)(file->bytes + file->length - at));

	if (!end || !symbols_is_name(at, (size_t)(end - at)))
		return false;
	strbuf_append_bytes(ret, at, (size_t)(end - at));
	return true;
}

/* The package whose Build-Ids have it. */
static struct error *package_by_id(const struct debian *debian, const char *id, struct strbuf *ret)
{
	bool found = false;

	/* Short ones are in other words too. */
	if (!id || strlen(id) < 16)
		return NULL;
	for (size_t i = 0; i < debian->apt.count && !found; i++) {
		struct symbols_mapped file = symbols_map_file(debian->apt.items[i]);
		const char *at =
			file.bytes ? memmem(file.bytes, file.length, id, strlen(id)) : NULL;

		if (at)
			found = package_at(&file, at, ret);
		symbols_unmap_file(&file);
	}
	return strbuf_result(ret);
}

/* Their debug files have packages of their own, from before there were any others. */
static bool old_name(const char *owner, struct strbuf *ret)
{
	const char *name = strncmp(owner, "lib", 3) == 0 ? owner + 3 : owner;
	size_t digits;

	if (strcmp(owner, "libc6") == 0 || strcmp(owner, "libc-bin") == 0) {
		strbuf_append(ret, "libc6-dbg");
		return true;
	}
	if (strncmp(name, "python3.", 8) != 0)
		return false;
	digits = strspn(name + 8, "0123456789");
	strbuf_printf(ret, "python3.%.*s-dbg", (int)digits, name + 8);
	return digits > 0;
}

static struct error *is_installed(const struct debian *debian, const char *name, bool *ret)
{
	size_t length = strlen(name);

	*ret = false;
	for (size_t i = 0; i < debian->lists.count; i++) {
		const char *base = strrchr(debian->lists.items[i], '/') + 1;

		*ret |= strncmp(base, name, length) == 0 &&
			(base[length] == ':' || strcmp(base + length, ".list") == 0);
	}
	return NULL;
}

static struct error *add(struct debian *debian, const char *path, const char *owner,
			 const char *name)
{
	bool installed;

	TRY(is_installed(debian, name, &installed));
	if (installed)
		return symbols_advise_note(debian->packages,
					   "%s is installed, but not for the %s that is in use: of "
					   "%s and %s the versions must be the same.",
					   name, path, owner, name);
	return symbols_texts_add(&debian->names, name, strlen(name));
}

static struct error *advise_module(struct debian *debian, const struct symbols_missing *missing)
{
	CLEANUP_FREE char *path = symbols_plain_path(missing->path);
	CLEANUP_STRBUF struct strbuf owner = STRBUF_EMPTY, name = STRBUF_EMPTY;

	if (!path)
		return error_no_memory();
	TRY(owner_of(debian, path, &owner));
	TRY(package_by_id(debian, missing->build_id, &name));
	if (owner.length == 0 && name.length == 0)
		return symbols_advise_own(debian->packages, path);
	if (name.length == 0 && !old_name(owner.text, &name)) {
		strbuf_clear(&name);
		strbuf_printf(&name, "%s-dbgsym", owner.text);
		debian->needs_archive = true;
	}
	TRY(strbuf_result(&name));
	return add(debian, path, owner.length ? owner.text : name.text, name.text);
}

/* Whether a file of APT's sources has the word in what is no comment. */
static bool mentions(const char *path, const char *word)
{
	struct symbols_mapped file = symbols_map_file(path);
	bool found = false;

	for (size_t at = 0; at < file.length && !found;) {
		const char *line = file.bytes + at;
		const char *end = memchr(line, '\n', file.length - at);
		size_t length = end ? (size_t)(end - line) : file.length - at;

		found = *line != '#' && memmem(line, length, word, strlen(word));
		at += length + 1;
	}
	symbols_unmap_file(&file);
	return found;
}

static struct error *has_archive(const struct debian *debian, bool *ret)
{
	symbols_texts sources = VECTOR_EMPTY;
	struct error *error =
		symbols_packages_glob(debian->packages, "/etc/apt/sources.list", &sources);

	if (!error)
		error = symbols_packages_glob(debian->packages, "/etc/apt/sources.list.d/*",
					      &sources);
	*ret = false;
	for (size_t i = 0; i < sources.count && !error; i++)
		*ret |= debian->packages->is_ubuntu ? mentions(sources.items[i], "ddebs")
						    : mentions(sources.items[i], "-debug");
	symbols_texts_free(&sources);
	return error;
}

static struct error *advise_archive(const struct debian *debian)
{
	const char *suite = *debian->packages->suite ? debian->packages->suite : "SUITE";
	bool enabled;

	TRY(has_archive(debian, &enabled));
	if (enabled)
		return NULL;
	if (debian->packages->is_ubuntu)
		return symbols_advise_note(debian->packages,
					   "The -dbgsym packages are in the archive ddebs, suite "
					   "%s, component main, which nothing in /etc/apt enables "
					   "yet; its key is in ubuntu-dbgsym-keyring.",
					   suite);
	return symbols_advise_note(
		debian->packages,
		"The -dbgsym packages are in the archive debian-debug, suite "
		"%s-debug, component main, which nothing in /etc/apt enables yet.",
		suite);
}

struct error *symbols_advise_debian(const struct symbols_packages *packages)
{
	CLEANUP(debian_free) struct debian debian = {.packages = packages};

	TRY(symbols_packages_glob(packages, "/var/lib/dpkg/info/*.list", &debian.lists));
	TRY(symbols_packages_glob(packages, "/var/lib/apt/lists/*_Packages", &debian.apt));
	for (size_t i = 0; i < packages->count; i++)
		TRY(advise_module(&debian, &packages->missing[i]));
	if (debian.names.count > 0)
		TRY(symbols_advise_command(packages, "apt-get install", &debian.names));
	return debian.needs_archive ? advise_archive(&debian) : NULL;
}
