/*
 * Sites of a process that matter little, put together, where a tree has too many in all. A
 * process keeps those that are the most of what it held at its peak, or at its end, or
 * allocated, by bytes or by number; the others are one site a function called, of no stack.
 */
#include "collect/finish_internal.h"

#include <string.h>

/* A site that is not known to be kept, by its rank in one of the measures. */
struct ranked {
	uint64_t most; /* its largest share of a measure, in parts of 2^32 */
	size_t site;   /* from the process's first */
};

struct folding {
	struct finish_process *process;
	size_t count;     /* sites, as they were */
	uint32_t *places; /* by site as it was: place among those that are left */
};

static uint64_t share_of(uint64_t part, uint64_t whole)
{
	if (whole == 0 || (int64_t)part <= 0)
		return 0;
	return part >= whole ? UINT64_C(1) << 32
			     : (uint64_t)((double)part / (double)whole * 4294967296.0);
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t most_of(const struct finish_counts *counts, const struct finish_counts *all)
{
	uint64_t most = share_of(counts->peak_bytes, all->peak_bytes);

	most = larger(most, share_of(counts->bytes_in, all->bytes_in));
	most = larger(most, share_of(counts->allocs, all->allocs));
	most = larger(most, share_of(counts->temporaries, all->temporaries));
	return larger(most, share_of(counts->bytes_in - counts->bytes_out,
				     all->bytes_in - all->bytes_out));
}

/* Of equal ones those that were met first. */
static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->most != y->most)
		return x->most < y->most ? 1 : -1;
	return (x->site > y->site) - (x->site < y->site);
}

static void add_counts(struct finish_counts *to, const struct finish_counts *from)
{
	to->allocs += from->allocs;
	to->frees += from->frees;
	to->bytes_in += from->bytes_in;
	to->bytes_out += from->bytes_out;
	to->temporaries += from->temporaries;
	to->lifetime += from->lifetime;
	to->moved += from->moved;
	to->foreign_frees += from->foreign_frees;
	to->peak_blocks += from->peak_blocks;
	to->peak_bytes += from->peak_bytes;
}

/* Those that stay move up, in their order; then come the sums of the others. */
static struct error *fold(struct folding *folding, const bool *is_kept)
{
	struct finish_process *process = folding->process;
	struct finish_site *sites = process->finishing->sites.items + process->first_site;
	struct finish_site rest[MGL_API_COUNT] = {{0}};
	uint32_t rest_places[MGL_API_COUNT] = {0};
	size_t kept = 0;

	for (size_t i = 0; i < folding->count; i++) {
		uint32_t api = sites[i].api < MGL_API_COUNT ? sites[i].api : 0;

		if (is_kept[i]) {
			folding->places[i] = (uint32_t)kept;
			sites[kept++] = sites[i];
		} else {
			rest[api].api = sites[i].api;
			rest[api].serial = sites[i].serial;
			add_counts(&rest[api].counts, &sites[i].counts);
		}
	}
	process->finishing->sites.count = process->first_site + kept;
	for (uint32_t api = 0; api < MGL_API_COUNT; api++) {
		if (!rest[api].serial)
			continue;
		rest_places[api] = (uint32_t)kept++;
		TRY(vector_push(&process->finishing->sites, rest[api]));
	}
	/* sites may have moved, and of those folded only the function is asked for: by place. */
	for (size_t i = 0; i < folding->count; i++)
		if (!is_kept[i])
			folding->places[i] = rest_places[folding->places[i]];
	return NULL;
}

struct error *collect_finish_fold(struct finish_process *process, uint32_t **ret_places)
{
	struct finishing *finishing = process->finishing;
	struct folding folding = {
		.process = process,
		.count = finishing->sites.count - process->first_site,
	};
	uint64_t before = finishing->sites_put + process->first_site;
	uint64_t most = finishing->options->sites ? finishing->options->sites : COLLECT_SITES;

	*ret_places = NULL;
	if (before + folding.count <= most || folding.count <= COLLECT_SITES_KEPT ||
	    process->member->parent == 0)
		return NULL;

	CLEANUP_FREE struct ranked *ranked = calloc(folding.count, sizeof(*ranked));
	CLEANUP_FREE bool *is_kept = calloc(folding.count, sizeof(*is_kept));
	CLEANUP_FREE uint32_t *places = calloc(folding.count, sizeof(*places));

	if (!ranked || !is_kept || !places)
		return error_no_memory();
	for (size_t i = 0; i < folding.count; i++) {
		const struct finish_site *site = &finishing->sites.items[process->first_site + i];

		ranked[i] = (struct ranked){most_of(&site->counts, &process->counts), i};
		places[i] = site->api < MGL_API_COUNT ? site->api : 0;
	}
	qsort(ranked, folding.count, sizeof(*ranked), compare_ranked);
	for (size_t i = 0; i < COLLECT_SITES_KEPT; i++)
		is_kept[ranked[i].site] = true;
	folding.places = places;
	TRY(fold(&folding, is_kept));
	*ret_places = STEAL(places);
	return ledger_member_add_missing(process->member, "sites_folded",
					 folding.count - COLLECT_SITES_KEPT, NULL);
}
