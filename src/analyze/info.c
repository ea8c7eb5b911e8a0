#include "analyze/info.h"

#include "analyze/model_internal.h"

static struct error *count_row(void *context, const void *row)
{
	(void)row;
	++*(uint64_t *)context;
	return NULL;
}

static struct error *load(struct store_reader *reader, struct analyze_info *ret)
{
	struct store_snap snap;
	struct store_block block;
	bool found;

	TRY(store_meta_text(reader, "tool", &ret->tool, &found));
	TRY(store_meta_text(reader, "host", &ret->host, &found));
	TRY(analyze_each_row(reader, STORE_TABLE_SNAP, STORE_ALL, &snap, count_row, &ret->snaps));
	return analyze_each_row(reader, STORE_TABLE_BLOCK, STORE_ALL, &block, count_row,
				&ret->blocks);
}

struct error *analyze_info_load(struct analyze_model *model, struct analyze_info *ret)
{
	*ret = (struct analyze_info){0};
	struct error *error = load(model->reader, ret);

	if (error)
		analyze_info_free(ret);
	return error;
}

void analyze_info_free(struct analyze_info *info)
{
	free(info->tool);
	free(info->host);
	*info = (struct analyze_info){0};
}
