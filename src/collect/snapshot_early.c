/* What snapshots hand on to be made early. */
#include "collect/snapshot_internal.h"

#include "base/clock.h"

#define LOG_DOMAIN "collect"
#include "base/log.h"

#define FIRST_EARLY_NS UINT64_C(20000000)
#define LAST_EARLY_NS  UINT64_C(640000000)

void collect_snapshots_set_early(struct collect_snapshots *snapshots, struct collect_early *early)
{
	snapshots->early = early;
}

int collect_snapshots_early_wait(const struct collect_snapshots *snapshots)
{
	int wait = snapshots->early ? collect_early_wait(snapshots->early) : -1;

	if (wait >= 0 || !snapshots->early || !snapshots->early_ns)
		return wait;
	return clock_wait_ms(snapshots->early_due_ns);
}

struct news {
	struct collect_early *early;
	uint32_t serial;
};

static struct error *add_node(void *context, uint32_t node)
{
	const struct news *news = context;

	collect_early_add(news->early, news->serial, node);
	return NULL;
}

/* New rows of processes that have many. *ret_found: there are such processes. */
static struct error *find_news(struct collect_snapshots *snapshots, bool *ret_found)
{
	TRY(collect_snapshots_refresh(snapshots));
	for (size_t i = 0; i < ledger_reader_process_count(snapshots->reader); i++) {
		uint32_t serial = ledger_reader_process(snapshots->reader, i)->serial;
		struct snapshot_subject *subject = collect_snapshots_subject(snapshots, serial);
		struct news news = {.early = snapshots->early, .serial = serial};
		bool stale = false;

		if (!subject || subject->rows.count < COLLECT_EARLY_ROWS)
			continue;
		*ret_found = true;
		TRY(ledger_rows_news(snapshots->reader, i, &subject->news, add_node, &news,
				     &stale));
		if (stale)
			snapshots->reader_bytes = 0;
	}
	return NULL;
}

/* Looks for news as often as there are some. */
static void look_early(struct collect_snapshots *snapshots)
{
	size_t before = collect_early_count(snapshots->early);
	bool found = false;
	CLEANUP_ERROR struct error *error = find_news(snapshots, &found);

	if (error) {
		log_debug("nothing more is made early: %s", error->message);
		snapshots->early = NULL;
		return;
	}
	if (collect_early_count(snapshots->early) > before || snapshots->early_ns == 0)
		snapshots->early_ns = FIRST_EARLY_NS;
	else if (snapshots->early_ns < LAST_EARLY_NS)
		snapshots->early_ns *= 2;
	if (!found)
		snapshots->early_ns = 0;
	snapshots->early_due_ns = clock_now_ns() + snapshots->early_ns;
}

void collect_snapshots_early_step(struct collect_snapshots *snapshots, bool taken)
{
	bool is_due = snapshots->early_ns && clock_now_ns() >= snapshots->early_due_ns;

	if (!snapshots->reader || !snapshots->early)
		return;
	if (collect_early_count(snapshots->early) == 0 && (taken || is_due))
		look_early(snapshots);
	if (snapshots->early)
		collect_early_work(snapshots->early, snapshots->reader, snapshots->opened);
}
