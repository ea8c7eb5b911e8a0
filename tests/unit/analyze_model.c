#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/model.h"
#include "finished.h"

static const struct analyze_loss *find_loss(const struct analyze_process *process, const char *kind)
{
	for (size_t i = 0; i < process->loss_count; i++)
		if (strcmp(process->losses[i].kind.bytes, kind) == 0)
			return &process->losses[i];
	return NULL;
}

static void test_totals(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct analyze_model *model = finished_model(&writer);
	const struct analyze_process *p = &model->processes[0];

	assert_int_equal(model->process_count, 2);
	assert_int_equal(p->counts.allocations, 17);
	assert_int_equal(p->counts.frees, 9);
	assert_int_equal(p->counts.allocated_bytes, 1000 + 4200 + 100000 + 21 + 16);
	assert_int_equal(p->counts.live_blocks, 8);
	assert_int_equal(p->counts.live_bytes, 600 + 4200 + 50000);
	assert_int_equal(p->counts.peak_bytes, 5000);
	assert_int_equal(p->counts.peak_blocks, 9);
	assert_int_equal(p->counts.temporary, 1);
	assert_int_equal(p->failed, 2);
	assert_int_equal(p->unknown_frees, 3);
	assert_int_equal(p->threads, 2);
	assert_int_equal(p->peak_time_ns, 1000000);
	assert_int_equal(p->rss_peak, 12345678);
	assert_int_equal(p->duration_ns, 1310000000);
	assert_int_equal(p->end, ANALYZE_EXITED);
	assert_int_equal(p->end_code, 3);
	assert_int_equal(find_loss(p, "deepbind")->count, 2);
	assert_string_equal(find_loss(p, "deepbind")->detail.bytes, "/lib/deep.so");
	assert_null(find_loss(p, "damaged"));
	assert_int_equal(model->processes[1].how, ANALYZE_FORK);
	assert_int_equal(model->processes[1].parent, 1);
	assert_int_equal(model->processes[1].end, ANALYZE_SIGNALED);
	assert_int_equal(model->processes[1].end_code, 9);
	analyze_model_free(model);
	writer_end(&writer);
}

static void test_equal_stacks_are_one_site(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct analyze_model *model = finished_model(&writer);

	analyze_sites_sort(model, ANALYZE_BY_PEAK);
	/* Five of the root (six rows, two of one site) and one of the child. */
	assert_int_equal(model->site_count, 6);
	const struct analyze_site *calloc_site = &model->sites[0], *malloc_site = &model->sites[1];

	assert_int_equal(calloc_site->api, MGL_API_CALLOC);
	assert_int_equal(calloc_site->counts.peak_bytes, 4200);
	assert_int_equal(malloc_site->api, MGL_API_MALLOC);
	assert_int_equal(malloc_site->counts.peak_bytes, 800);
	assert_int_equal(malloc_site->counts.live_blocks, 6);
	assert_int_equal(malloc_site->counts.allocations, 10);
	assert_int_equal(malloc_site->counts.frees, 4);
	assert_int_equal(malloc_site->frame, calloc_site->frame);
	struct analyze_size *sizes;
	size_t *first;

	assert_null(analyze_sizes_load(model, &sizes, &first));
	assert_int_equal(first[2] - first[1], 1);
	assert_int_equal(analyze_class_low(sizes[first[1]].size_class), 96);
	assert_int_equal(analyze_class_low(sizes[first[1]].size_class + 1), 112);
	assert_int_equal(sizes[first[1]].allocations, 10);
	assert_int_equal(sizes[first[1]].bytes, 1000);
	free(sizes);
	free(first);

	const struct analyze_frame *inner = &model->frames[malloc_site->frame];
	const struct analyze_frame *outer = &model->frames[inner->parent];

	const struct analyze_place *in = &model->places[inner->place];
	const struct analyze_place *out = &model->places[outer->place];

	assert_int_equal(in->offset, 0x1234);
	assert_string_equal(model->modules[in->module].path.bytes, "/lib/libsample.so.1");
	assert_int_equal(out->offset, 0x1000);
	assert_string_equal(model->modules[out->module].path.bytes, "/bin/sample");
	assert_int_equal(outer->parent, 0);
	analyze_model_free(model);
	writer_end(&writer);
}

static const struct analyze_site *find_site(const struct analyze_model *model, uint8_t api,
					    uint64_t allocations)
{
	for (size_t i = 0; i < model->site_count; i++)
		if (model->sites[i].api == api && model->sites[i].counts.allocations == allocations)
			return &model->sites[i];
	fail();
	return NULL;
}

static uint64_t offset_of(const struct analyze_model *model, const struct analyze_frame *frame)
{
	return model->places[frame->place].offset;
}

static void test_stacks_without_agent_cut_and_unknown(void **state)
{
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct analyze_model *model = finished_model(&writer);
	const struct analyze_site *below = find_site(model, MGL_API_REALLOC, 2);
	const struct analyze_frame *frame = &model->frames[below->frame];

	assert_int_equal(frame->depth, 3);
	assert_int_equal(offset_of(model, frame), 0x5678);
	assert_int_equal(offset_of(model, &model->frames[frame->parent]), 0x1234);

	frame = &model->frames[find_site(model, MGL_API_NEW, 3)->frame];
	assert_int_equal(offset_of(model, frame), 0x2000);
	assert_true(frame->parent);
	assert_int_equal(model->frames[frame->parent].place, 0);
	assert_int_equal(find_site(model, MGL_API_MALLOC, 1)->frame, 0);
	analyze_model_free(model);
	writer_end(&writer);
}

static void test_orders(void **state)
{
	static const enum analyze_order orders[] = {
		ANALYZE_BY_PEAK,  ANALYZE_BY_LIVE,      ANALYZE_BY_ALLOCATIONS,
		ANALYZE_BY_BYTES, ANALYZE_BY_TEMPORARY,
	};
	struct writer writer;

	(void)state;
	writer_sample(&writer);
	struct analyze_model *model = finished_model(&writer);
	struct analyze_site first[8];

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		analyze_sites_sort(model, orders[i]);
		memcpy(first, model->sites, model->site_count * sizeof(first[0]));
		for (size_t j = 1; j < model->site_count; j++)
			assert_true(analyze_order_value(&first[j - 1].counts, orders[i]) >=
				    analyze_order_value(&first[j].counts, orders[i]));
		/* From another order to the same one again: nothing is left to chance. */
		analyze_sites_sort(model, orders[(i + 1) % 5]);
		analyze_sites_sort(model, orders[i]);
		assert_memory_equal(first, model->sites, model->site_count * sizeof(first[0]));
	}
	analyze_model_free(model);
	writer_end(&writer);
}

static void test_relations(void **state)
{
	struct writer writer;

	(void)state;
	writer_begin(&writer, 16);
	writer_process(&writer, MGL_HOW_ROOT, 10, 1, "/bin/sh");
	writer_process(&writer, MGL_HOW_FORK, 11, 10, "/bin/sh")->header->parent = 1;
	writer_process(&writer, MGL_HOW_EXEC, 11, 10, "/bin/ls");
	writer_process(&writer, MGL_HOW_ROOT, 12, 11, "/bin/cat"); /* by posix_spawn */
	struct writer_process *last = writer_process(&writer, MGL_HOW_EXEC, 10, 1, "/bin/env");

	last->header->state = MGL_STATE_FINISHED;
	writer.processes[3].header->state = MGL_STATE_EXECING;
	struct analyze_model *model = finished_model(&writer);
	const struct analyze_process *p = model->processes;

	assert_int_equal(p[0].how, ANALYZE_ROOT);
	assert_int_equal(p[0].parent, 0);
	assert_int_equal(p[0].end, ANALYZE_EXECED);
	assert_int_equal(p[0].duration_ns, 4000000);
	assert_int_equal(p[1].how, ANALYZE_FORK);
	assert_int_equal(p[1].parent, 1);
	assert_int_equal(p[1].end, ANALYZE_EXECED);
	assert_int_equal(p[2].how, ANALYZE_EXEC);
	assert_int_equal(p[2].parent, 2);
	assert_int_equal(p[2].end, ANALYZE_LOST);
	assert_int_equal(p[3].how, ANALYZE_SPAWN);
	assert_int_equal(p[3].parent, 3);
	assert_int_equal(p[3].end, ANALYZE_EXECED); /* as something nobody recorded */
	assert_int_equal(p[4].how, ANALYZE_EXEC);
	assert_int_equal(p[4].parent, 1);
	assert_int_equal(p[4].end, ANALYZE_EXITED);
	assert_true(p[4].end_code == ANALYZE_UNKNOWN);
	analyze_model_free(model);
	writer_end(&writer);
}

/* Field 22 of our own /proc/self/stat. */
static uint64_t own_starttime(void)
{
	char text[1024];
	FILE *file = fopen("/proc/self/stat", "r");
	size_t count;

	assert_non_null(file);
	count = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[count] = '\0';
	char *at = strrchr(text, ')') + 2;

	for (unsigned int field = 3; field < 22; field++)
		at = strchr(at, ' ') + 1;
	return strtoull(at, NULL, 10);
}

static void test_running(void **state)
{
	struct writer writer;

	(void)state;
	writer_begin(&writer, 8);
	struct writer_process *p = writer_process(&writer, MGL_HOW_ROOT, getpid(), 1, "/bin/x");

	p->header->starttime = own_starttime();
	struct analyze_model *model = finished_model(&writer);

	assert_int_equal(model->processes[0].end, ANALYZE_RUNNING);
	analyze_model_free(model);
	p->header->starttime++; /* another process that had this pid */
	model = finished_model(&writer);
	assert_int_equal(model->processes[0].end, ANALYZE_LOST);
	analyze_model_free(model);
	/* A child of fork does not know its own. */
	struct timespec monotonic, real;

	clock_gettime(CLOCK_MONOTONIC, &monotonic);
	clock_gettime(CLOCK_REALTIME, &real);
	p->header->starttime = 0;
	p->header->start_ns = writer.session->start_ns =
		(uint64_t)monotonic.tv_sec * 1000000000 + (uint64_t)monotonic.tv_nsec;
	writer.session->start_unix_ns = (uint64_t)real.tv_sec * 1000000000 + (uint64_t)real.tv_nsec;
	model = finished_model(&writer);
	assert_int_equal(model->processes[0].end, ANALYZE_RUNNING);
	analyze_model_free(model);
	p->header->start_ns = 1; /* before this process began */
	model = finished_model(&writer);
	assert_int_equal(model->processes[0].end, ANALYZE_LOST);
	analyze_model_free(model);
	writer_end(&writer);
}

static void test_what_was_not_seen(void **state)
{
	struct writer writer;
	uint32_t ref;

	(void)state;
	writer_begin(&writer, 8);
	struct writer_process *p = writer_process(&writer, MGL_HOW_ROOT, 5, 1, "/bin/x");
	struct mgl_slot *slot = writer_slot(p, "x", &ref);
	struct mgl_row *row = writer_row(p, slot, ref, 0, MGL_API_MALLOC, 8, NULL);

	writer_allocs(row, 1, 8);
	slot->op = 1;
	p->header->inert = MGL_INERT_LEDGER_LIMIT;
	writer.session->missed = 2;
	struct analyze_model *model = finished_model(&writer);

	assert_non_null(find_loss(&model->processes[0], "stopped_ledger_limit"));
	assert_int_equal(find_loss(&model->processes[0], "unfinished_calls")->count, 1);
	assert_int_equal(find_loss(&model->processes[0], "missed_process")->count, 2);
	assert_null(find_loss(&model->processes[0], "damaged"));
	analyze_model_free(model);

	/* More frees than allocations: nothing true says that. */
	slot->op = 2;
	writer_frees(row, 2, 8);
	model = finished_model(&writer);
	assert_int_equal(model->processes[0].counts.live_blocks, 0);
	assert_int_equal(model->processes[0].counts.live_bytes, 0);
	assert_non_null(find_loss(&model->processes[0], "damaged"));
	analyze_model_free(model);
	writer_end(&writer);
}

static void test_node_cycle_ends(void **state)
{
	struct writer writer;
	uint32_t slot_ref, first, second;

	(void)state;
	writer_begin(&writer, 8);
	struct writer_process *p = writer_process(&writer, MGL_HOW_ROOT, 5, 1, "/bin/x");
	struct mgl_slot *slot = writer_slot(p, "x", &slot_ref);

	first = writer_node(p, 0, 1, 0);
	second = writer_node(p, first, 2, 0);
	((struct mgl_node *)(p->base + (uint64_t)first * MGL_REF_BYTES))->parent = second;
	writer_allocs(writer_row(p, slot, slot_ref, second, MGL_API_MALLOC, 8, NULL), 1, 8);
	writer_allocs(writer_row(p, slot, slot_ref, first, MGL_API_MALLOC, 8, NULL), 1, 8);
	struct analyze_model *model = finished_model(&writer);

	assert_int_equal(model->site_count, 2);
	assert_int_equal(find_loss(&model->processes[0], "damaged")->count, 1);
	analyze_model_free(model);
	writer_end(&writer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_totals),
		cmocka_unit_test(test_equal_stacks_are_one_site),
		cmocka_unit_test(test_stacks_without_agent_cut_and_unknown),
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_relations),
		cmocka_unit_test(test_running),
		cmocka_unit_test(test_what_was_not_seen),
		cmocka_unit_test(test_node_cycle_ends),
	};

	return cmocka_run_group_tests_name("analyze-model", tests, NULL, NULL);
}
