#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/view.h"
#include "collect/keep.h"
#include "collect/session.h"
#include "ledger/reader.h"

enum kind { NOTHING, PROFILE, LEDGER };

static struct error *kind_of(const char *path, enum kind *ret)
{
	/* O_NONBLOCK: a FIFO must be refused, not waited for. */
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return error_create_system(errno, path, "cannot open");
	if (!S_ISREG(st.st_mode))
		return error_create_path(ERROR_FORMAT, path, "not a file");
	*ret = store_reader_recognises(fd)    ? PROFILE
	       : ledger_reader_recognises(fd) ? LEDGER
					      : NOTHING;
	return NULL;
}

bool cli_profile_is(const char *path)
{
	enum kind kind = NOTHING;

	error_free(kind_of(path, &kind));
	return kind != NOTHING;
}

bool cli_ledger_is(const char *path)
{
	enum kind kind = NOTHING;

	error_free(kind_of(path, &kind));
	return kind == LEDGER;
}

sigset_t cli_hold_interruptions(void)
{
	sigset_t interruptions, before;

	sigemptyset(&interruptions);
	sigaddset(&interruptions, SIGINT);
	sigaddset(&interruptions, SIGTERM);
	sigaddset(&interruptions, SIGHUP);
	sigprocmask(SIG_BLOCK, &interruptions, &before);
	return before;
}

/* The temporary file is there until it is open, or an interruption waits until it is gone. */
static struct error *open_temporarily(struct ledger_reader *ledger, const char *name,
				      const struct collect_finish_options *options,
				      struct store_reader **ret)
{
	CLEANUP_FREE char *path = NULL, *kept = NULL;
	struct collect_finish_options with = *options;

	/* Read after the ledger was opened, from which ended processes go a while after that. */
	TRY(collect_session_kept(ledger_reader_session(ledger), name, &kept));
	with.retired = kept;

	sigset_t before = cli_hold_interruptions();
	struct error *error = collect_keep_temporarily(ledger, &with, &path);

	if (!error)
		error = store_reader_open(path, ret);
	if (path)
		unlink(path);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return error;
}

static struct error *open_ledger(const char *path, const struct collect_finish_options *options,
				 struct store_reader **ret)
{
	struct ledger_reader *ledger;

	TRY(ledger_reader_open(path, &ledger));
	struct error *error = open_temporarily(ledger, path, options, ret);

	ledger_reader_close(ledger);
	return error;
}

struct error *cli_profile_open(const char *path, const struct collect_finish_options *options,
			       struct store_reader **ret)
{
	enum kind kind = NOTHING;

	TRY(kind_of(path, &kind));
	switch (kind) {
	case PROFILE:
		return store_reader_open(path, ret);
	case LEDGER:
		return open_ledger(path, options, ret);
	default:
		return error_create_path(ERROR_FORMAT, path, "not a mallograph profile or ledger");
	}
}

struct error *cli_recording_open(int fd, const char *name,
				 const struct collect_finish_options *options,
				 struct store_reader **ret)
{
	struct ledger_reader *ledger;

	TRY(ledger_reader_open_fd(fd, name, &ledger));
	struct error *error = open_temporarily(ledger, name, options, ret);

	ledger_reader_close(ledger);
	return error;
}
