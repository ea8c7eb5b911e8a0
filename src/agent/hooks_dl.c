/*
 * dlopen and dlmopen are jumped to (hooks_jump.S) after a look at what they open;
 * dlclose is wrapped, since what it unloads takes unwind rules and generations with it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/hook.h"
#include "agent/hooks_new.h"
#include "agent/inner.h"
#include "agent/real.h"

/* Called by the stubs with the call's own arguments; return where to jump. */
void *hooks_dlopen_seen(const char *file, int flags);
void *hooks_dlmopen_seen(long space, const char *file, int flags);

static void name_loss(enum mgl_loss kind, const char *file)
{
	struct thread *t = thread_enter(CFA);

	if (!t)
		return;
	agent_name_loss(t, kind, file, strlen(file));
	thread_leave(t);
}

static void see_deepbind(const char *file)
{
	struct thread *t = thread_enter(CFA);

	if (!t)
		return;
	if (!inner_deepbind(t))
		agent_name_loss(t, MGL_LOSS_DEEPBIND, file, strlen(file));
	thread_leave(t);
}

/* What a program gets that calls a function its C library does not have: its failure. */
static void *open_nothing(void) { return NULL; }

/* The C library before 2.34 has these in a libdl that may come later. */
static void *late(void *found, const char *name)
{
	if (!found && real_resolve())
		found = real_late(name);
	return found ? found : (void *)open_nothing;
}

void *hooks_dlopen_seen(const char *file, int flags)
{
	int saved = errno;

	inner_opening();
	if (file && (flags & RTLD_DEEPBIND))
		see_deepbind(file);
	errno = saved;
	return late((void *)real.dlopen, "dlopen");
}

void *hooks_dlmopen_seen(long space, const char *file, int flags)
{
	int saved = errno;

	inner_opening();
	if (file && space != LM_ID_BASE && !inner_sees_spaces())
		name_loss(MGL_LOSS_DLMOPEN, file);
	else if (file && space == LM_ID_BASE && (flags & RTLD_DEEPBIND))
		see_deepbind(file);
	errno = saved;
	return late((void *)real.dlmopen, "dlmopen");
}

static int read_unloads(struct dl_phdr_info *info, size_t bytes, void *ret)
{
	if (bytes >= offsetof(struct dl_phdr_info, dlpi_tls_modid))
		*(unsigned long long *)ret = info->dlpi_subs;
	return 1;
}

/* How many modules were ever unloaded. */
static unsigned long long count_unloads(void)
{
	unsigned long long ret = 0;

	dl_iterate_phdr(read_unloads, &ret);
	return ret;
}

/* The real call runs the library's destructors, whose calls are the program's: nothing is
 * entered around it. */
AGENT_EXPORT int dlclose(void *handle)
{
	int (*call)(void *) = (int (*)(void *))late((void *)real.dlclose, "dlclose");
	unsigned long long before = count_unloads();
	int ret = call(handle), saved = errno;
	struct thread *t;

	if (count_unloads() != before) {
		hooks_new_forget();
		t = thread_enter(CFA);
		if (t) {
			module_unloaded(t);
			thread_leave(t);
		}
	}
	errno = saved;
	return ret;
}
