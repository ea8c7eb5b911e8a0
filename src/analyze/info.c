#include "analyze/info.h"

#include "analyze/model_internal.h"

static struct error *count(struct store_reader *reader, const char *question, uint64_t *ret)
{
	struct store_query *query;

	TRY(store_query_open(reader, question, &query));
	if (store_query_next(query)) {
		struct store_text text = store_query_text(query, 0);

		*ret = text.bytes ? strtoull(text.bytes, NULL, 10) : 0;
	}
	return store_query_close(query);
}

static struct error *load(struct store_reader *reader, struct analyze_info *ret)
{
	bool found;

	TRY(store_meta_text(reader, "tool", &ret->tool, &found));
	TRY(store_meta_text(reader, "host", &ret->host, &found));
	TRY(count(reader, "SELECT count(*) FROM snap", &ret->snaps));
	return count(reader, "SELECT count(*) FROM block", &ret->blocks);
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
