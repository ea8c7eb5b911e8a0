#include "agent/environ.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"

static const char *const names[ENVIRON_COUNT] = {
	[ENVIRON_SESSION] = "MALLOGRAPH_SESSION=", [ENVIRON_OUT] = "MALLOGRAPH_OUT=",
	[ENVIRON_FROM] = "MALLOGRAPH_FROM=",       [ENVIRON_CHOICE] = "MALLOGRAPH_CHOICE=",
	[ENVIRON_PRELOAD] = "LD_PRELOAD=",
};

/* With it the loader tells what it would load, as ldd has it do, and runs nothing. */
#define LISTS_ONLY "LD_TRACE_LOADED_OBJECTS="

#define FROM_BYTES 32u /* MALLOGRAPH_FROM=v4294967295 */

static char kept[(ENVIRON_COUNT + 1) * PATH_MAX]; /* of the values, in the order they came */
static size_t kept_bytes;
static AGENT_SMALL const char *values[ENVIRON_COUNT]; /* NULL = none */
static bool following;

/* What stands after "NAME=", NULL where s is another variable. */
static char *value_of(const char *s, enum environ_variable which)
{
	size_t n = strlen(names[which]);

	return strncmp(s, names[which], n) == 0 ? (char *)s + n : NULL;
}

static bool value_keep(enum environ_variable which, const char *value, size_t n)
{
	char *to = kept + kept_bytes;

	values[which] = NULL;
	if (n == 0)
		return true;
	if (n >= PATH_MAX || n >= sizeof(kept) - kept_bytes)
		return false;
	memcpy(to, value, n);
	to[n] = '\0';
	kept_bytes += n + 1;
	values[which] = to;
	return true;
}

bool environ_set(enum environ_variable which, const char *value)
{
	const char *is = values[which];

	if (is && value && strcmp(is, value) == 0)
		return true;
	return value_keep(which, value, value ? strlen(value) : 0);
}

const char *environ_value(enum environ_variable which) { return values[which]; }

void environ_follow(void) { following = true; }

void environ_unfollow(void) { following = false; }

/* --- where a program came from ---------------------------------------------------- */

static const char how_letters[] = {
	[MGL_HOW_EXEC] = 'e',
	[MGL_HOW_SPAWN] = 's',
	[MGL_HOW_VFORK] = 'v',
};

void environ_origin(enum mgl_how *how, uint32_t *serial)
{
	const char *s = environ_value(ENVIRON_FROM);
	uint64_t value = 0;

	values[ENVIRON_FROM] = NULL;
	for (size_t i = MGL_HOW_EXEC; s && i < sizeof(how_letters); i++) {
		if (!how_letters[i] || how_letters[i] != *s)
			continue;
		for (s++; *s >= '0' && *s <= '9' && value <= UINT32_MAX; s++)
			value = value * 10 + (uint64_t)(*s - '0');
		if (*s || value > UINT32_MAX)
			return;
		*how = (enum mgl_how)i;
		*serial = (uint32_t)value;
		return;
	}
}

/* --- taking ours out ------------------------------------------------------------- */

static bool is_separator(char c) { return c == ':' || c == ' '; }

static const char *base_name(const char *path, size_t n)
{
	while (n > 0 && path[n - 1] != '/')
		n--;
	return path + n;
}

/* Whether the entry of n bytes loads the agent: the loader searches for a bare name and
 * expands $LIB, so only the last component is sure to be as it was loaded. */
static bool is_agent(const char *entry, size_t n, const char *agent_path)
{
	const char *ours = base_name(agent_path, strlen(agent_path));
	const char *base = base_name(entry, n);
	size_t length = n - (size_t)(base - entry);

	return length > 0 && length == strlen(ours) && memcmp(base, ours, length) == 0;
}

static void keep_preload(const char *entry, size_t n, const char *agent_path)
{
	if (!memchr(entry, '/', n) || !value_keep(ENVIRON_PRELOAD, entry, n))
		environ_set(ENVIRON_PRELOAD, agent_path);
}

/* Takes the agent out of a list; false: nothing at all is left, not even a separator. */
static bool scrub_preload(char *list, const char *agent_path)
{
	char *entry = list;

	while (*entry) {
		size_t n = strcspn(entry, ": ");

		if (is_agent(entry, n, agent_path)) {
			char *rest = entry + n;

			keep_preload(entry, n, agent_path);
			if (*rest)
				rest++;
			else if (entry > list)
				entry--;
			else
				return false;
			memmove(entry, rest, strlen(rest) + 1);
			continue;
		}
		entry += n;
		if (is_separator(*entry))
			entry++;
	}
	return true;
}

/* Whether a variable stays in the environment. */
static bool scrub_variable(char *s, const char *agent_path)
{
	char *list = value_of(s, ENVIRON_PRELOAD);

	if (list)
		return scrub_preload(list, agent_path);
	for (int which = ENVIRON_SESSION; which <= ENVIRON_CHOICE; which++) {
		const char *value = value_of(s, (enum environ_variable)which);

		if (!value)
			continue;
		if (!values[which])
			environ_set((enum environ_variable)which, value);
		return false;
	}
	return true;
}

/* The kernel's argc, arguments and environment: the first hook of all comes before the C
 * library has set environ. */
extern void *__libc_stack_end;

static char **initial_environ(void)
{
	long argc = *(const long *)__libc_stack_end;

	return (char **)__libc_stack_end + argc + 2;
}

void environ_scrub(const char *agent_path)
{
	char **from, **to;

	for (from = to = environ ? environ : initial_environ(); *from; from++) {
		if (scrub_variable(*from, agent_path))
			*to++ = *from;
	}
	*to = NULL;
	if (!values[ENVIRON_PRELOAD])
		environ_set(ENVIRON_PRELOAD, agent_path);
}

/* --- putting ours back -------------------------------------------------------------- */

static size_t count(char *const envp[])
{
	size_t n = 0;

	while (envp && envp[n])
		n++;
	return n;
}

/* The last LD_PRELOAD: it is the one the loader obeys. */
static size_t find_preload(char *const envp[], size_t n)
{
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < n; i++) {
		if (value_of(envp[i], ENVIRON_PRELOAD))
			found = i;
	}
	return found;
}

bool environ_differs(char *const envp[])
{
	if (!following || !values[ENVIRON_PRELOAD])
		return false;
	for (size_t i = 0; envp && envp[i]; i++) {
		if (value_of(envp[i], ENVIRON_SESSION) || value_of(envp[i], ENVIRON_OUT) ||
		    strncmp(envp[i], LISTS_ONLY, sizeof(LISTS_ONLY) - 1) == 0)
			return false;
	}
	return true;
}

bool environ_is_first_or_nothing(const char *library)
{
	return strncmp(library, "libasan.so", 10) == 0 || strncmp(library, "libtsan.so", 10) == 0 ||
	       strncmp(library, "liblsan.so", 10) == 0 ||
	       strncmp(library, "libhwasan.so", 12) == 0 ||
	       (strncmp(library, "libclang_rt.", 12) == 0 &&
		strncmp(library, "libclang_rt.ubsan", 17) != 0);
}

bool environ_admits(char *const envp[])
{
	size_t n = count(envp), found = find_preload(envp, n);
	const char *list = found < n ? value_of(envp[found], ENVIRON_PRELOAD) : "";

	while (*list) {
		size_t length = strcspn(list, ": ");

		if (environ_is_first_or_nothing(base_name(list, length)))
			return false;
		list += length + is_separator(list[length]);
	}
	return true;
}

size_t environ_bytes(char *const envp[])
{
	size_t n = count(envp), i = find_preload(envp, n);
	size_t bytes = (n + ENVIRON_COUNT + 1) * sizeof(char *);

	for (int which = 0; which < ENVIRON_COUNT; which++) {
		if (values[which])
			bytes += strlen(names[which]) + strlen(values[which]) + 2;
	}
	bytes += FROM_BYTES;
	return i < n ? bytes + strlen(envp[i]) : bytes;
}

static char *append_number(char *to, uint32_t value)
{
	char digits[12];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (n)
		*to++ = digits[--n];
	*to = 0;
	return to;
}

static char *append(char *to, const char *s)
{
	size_t n = strlen(s);

	memcpy(to, s, n + 1);
	return to + n;
}

char **environ_inject(char *const envp[], void *memory, enum mgl_how how, uint32_t origin)
{
	size_t n = count(envp), preload = find_preload(envp, n);
	char **ret = memory;
	char *text = (char *)(ret + n + ENVIRON_COUNT + 1);

	if (n > 0)
		memcpy(ret, envp, n * sizeof(*ret));
	ret[n++] = text;
	text = append(text, names[ENVIRON_FROM]);
	*text++ = how_letters[how];
	text = append_number(text, origin) + 1;
	for (int which = 0; which < ENVIRON_COUNT; which++) {
		if (!values[which])
			continue;
		if (which == ENVIRON_PRELOAD && preload != SIZE_MAX)
			ret[preload] = text;
		else
			ret[n++] = text;
		text = append(append(text, names[which]), values[which]);
		if (which == ENVIRON_PRELOAD && preload != SIZE_MAX)
			text = append(append(text, ":"), value_of(envp[preload], ENVIRON_PRELOAD));
		text++;
	}
	ret[n] = NULL;
	return ret;
}
