/* A hand-written ledger as reports see it: finished into a profile, without symbols. */
#ifndef MALLOGRAPH_TESTS_FINISHED_H
#define MALLOGRAPH_TESTS_FINISHED_H

#include "analyze/model.h"
#include "ledger_writer.h"

/* Asserts; the caller frees the model. */
struct analyze_model *finished_model(const struct writer *writer);

#endif
