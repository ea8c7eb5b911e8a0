/* How a child ended, noted in this process's ledger. Any thread, any handler; errno is kept. */
#ifndef MALLOGRAPH_AGENT_HOOKS_WAIT_H
#define MALLOGRAPH_AGENT_HOOKS_WAIT_H

#include <stdint.h>

/* status as waitpid(2) has it. A pid below 0: of a shell
 * that system(3) started after since, as mgl_wait has it. cfa is the
 * calling hook's. */
void hooks_wait_note(uintptr_t cfa, int32_t pid, int status, uint64_t since);

#endif
