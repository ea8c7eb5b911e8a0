/*
 * wait and its kin, pclose: how a child ended is known to who reaps it and to nobody else, so
 * it is noted in the ledger of this process, by pid. Which recorded process that was, if it was
 * one, the reader finds out.
 *
 * Called in handlers of SIGCHLD, and points of cancellation: nothing is held while the real
 * function waits, and what comes after it takes no lock and no struct thread. A vfork child
 * notes nothing, for the memory is its parent's.
 */
#include <string.h>

#include "agent/core.h"
#include "agent/hook.h"
#include "agent/hooks_wait.h"
#include "agent/real.h"

/* An entry of the newest page, or of a new one; NULL = no more of them. */
static struct mgl_wait *entry_take(struct agent *a)
{
	for (;;) {
		uint32_t ref = atomic_load(&a->process->waits);
		struct mgl_waits *page = agent_record_at(a, ref);
		uint32_t n = page ? atomic_load(&page->used) : MGL_WAITS;

		if (n < MGL_WAITS && (n = atomic_fetch_add(&page->used, 1)) < MGL_WAITS)
			return &page->waits[n];
		uint32_t number = page ? page->number + 1 : 1, new_ref;

		if (number > MGL_WAIT_BLOCKS)
			return NULL;
		struct mgl_waits *next = record_page(a, &new_ref);

		if (!next)
			return NULL;
		next->next = ref;
		next->number = number;
		/* Who loses the race leaves an empty page. */
		atomic_compare_exchange_strong(&a->process->waits, &ref, new_ref);
	}
}

void hooks_wait_note(uintptr_t cfa, int32_t pid, int status, uint64_t since)
{
	if (!WIFEXITED(status) && !WIFSIGNALED(status))
		return;
	struct agent *a = process_recorder(cfa);
	struct mgl_wait *entry = a ? entry_take(a) : NULL;

	if (!entry)
		return;
	entry->since = since;
	entry->pid = pid;
	entry->status = (uint32_t)status;
	atomic_store_explicit(&entry->ns, agent_now(), memory_order_release);
}

/* Where the program does not ask for the status, we do. */
#define WAIT(call)                                                     \
	do {                                                           \
		int own = 0, *to = status ? status : &own;             \
                                                                       \
		if (!real.waitpid)                                     \
			real_resolve();                                \
		pid_t reaped = (call);                                 \
                                                                       \
		if (reaped > 0)                                        \
			hooks_wait_note(CFA, (int32_t)reaped, *to, 0); \
		return reaped;                                         \
	} while (0)

AGENT_EXPORT pid_t wait(int *status) { WAIT(real.wait(to)); }

AGENT_EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
	WAIT(real.waitpid(pid, to, options));
}

AGENT_EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
	WAIT(real.wait3(to, options, usage));
}

AGENT_EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	WAIT(real.wait4(pid, to, options, usage));
}

/* As the other calls have it; 0x7f = it has not ended. */
static int status_of(const siginfo_t *info)
{
	switch (info->si_code) {
	case CLD_EXITED:
		return (info->si_status & 0xff) << 8;
	case CLD_KILLED:
		return info->si_status & 0x7f;
	case CLD_DUMPED:
		return (info->si_status & 0x7f) | 0x80;
	default:
		return 0x7f;
	}
}

AGENT_EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	siginfo_t own = {0}, *to = info ? info : &own;

	if (!real.waitid)
		real_resolve();
	int ret = real.waitid(type, id, to, options);

	if (ret == 0 && to->si_pid > 0 && !(options & WNOWAIT))
		hooks_wait_note(CFA, to->si_pid, status_of(to), 0);
	return ret;
}

/* glibc keeps the shell's pid right behind its FILE (struct _IO_proc_file, since 2.1). The
 * reader takes it for nothing if no child of this process has it. */
static int32_t pid_of(FILE *stream)
{
	int32_t pid = 0;

	if (stream)
		memcpy(&pid, (const char *)stream + sizeof(*stream) + sizeof(void *), sizeof(pid));
	return pid;
}

AGENT_EXPORT int pclose(FILE *stream)
{
	int32_t pid = pid_of(stream);

	if (!real.pclose)
		real_resolve();
	int status = real.pclose(stream);

	if (status != -1 && pid > 0)
		hooks_wait_note(CFA, pid, status, 0);
	return status;
}
