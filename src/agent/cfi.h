/*
 * Call frame information: from a code address to the row of rules that recovers the
 * caller's registers there.
 *
 * Everything parsed lies between the bounds a struct cfi_section names and nothing is
 * read outside them, whatever the bytes say. Nothing is allocated: working memory is the
 * caller's struct cfi_scratch and struct cfi_machine, one a thread. A row and a frame
 * description point into the section and are good as long as the module stays mapped.
 *
 * Errors: false, and the caller has no row: the code is treated as having no CFI.
 *
 * Sources: DWARF 5, 6.4 (call frame information) and 2.5 (expressions); LSB 5.0 core,
 * 10.6 (.eh_frame, .eh_frame_hdr, pointer encodings); System V ABI AMD64, 3.6.2 (register
 * numbers).
 */
#ifndef MALLOGRAPH_AGENT_CFI_H
#define MALLOGRAPH_AGENT_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/stackrange.h"

/* DWARF register numbers of x86-64. Vector registers follow; no rule here needs them. */
enum cfi_register {
	CFI_RAX = 0,
	CFI_RDX = 1,
	CFI_RCX = 2,
	CFI_RBX = 3,
	CFI_RSI = 4,
	CFI_RDI = 5,
	CFI_RBP = 6,
	CFI_RSP = 7,
	CFI_R12 = 12,
	CFI_R13 = 13,
	CFI_R14 = 14,
	CFI_R15 = 15,
	CFI_RIP = 16,
	CFI_REGISTERS = 17,
};

/* Mapped bytes to parse: the header's and the frame descriptions' segment. */
struct cfi_section {
	const uint8_t *header, *header_end; /* .eh_frame_hdr; NULL = none */
	const uint8_t *low, *high;          /* the segment .eh_frame lies in */
	const uint8_t *frames;              /* .eh_frame itself */
};

/* One FDE with its CIE. */
struct cfi_fde {
	uint64_t start, stop; /* code it covers */
	const uint8_t *initial, *initial_end;
	const uint8_t *program, *program_end;
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding; /* of code addresses */
	bool signal;      /* 'S': a frame the kernel made */
};

enum cfi_kind {
	CFI_UNSET = 0,      /* no rule: the ABI's default */
	CFI_SAME,           /* not changed */
	CFI_UNDEFINED,      /* lost; of rip: there is no caller */
	CFI_OFFSET,         /* saved at CFA + value */
	CFI_VAL_OFFSET,     /* is CFA + value */
	CFI_REGISTER,       /* is in register value (of the CFA: + cfa_offset) */
	CFI_EXPRESSION,     /* saved at what the expression says */
	CFI_VAL_EXPRESSION, /* is what the expression says */
};

struct cfi_row {
	uint8_t cfa_kind; /* UNSET, REGISTER or VAL_EXPRESSION */
	uint8_t kind[CFI_REGISTERS];
	uint64_t cfa; /* register number or expression */
	int64_t cfa_offset;
	uint64_t value[CFI_REGISTERS];
};

#define CFI_REMEMBERED 8u

struct cfi_scratch {
	struct cfi_fde fde;
	struct cfi_row row; /* the result */
	struct cfi_row initial;
	struct cfi_row remembered[CFI_REMEMBERED];
};

/* The address of .eh_frame as the header (.header to .header_end) gives it. */
bool cfi_header_frames(const struct cfi_section *section, uint64_t *ret);

/* The FDE that covers this address, into s->fde. */
bool cfi_find(const struct cfi_section *section, uint64_t address, struct cfi_scratch *s);
/* Runs s->fde's program up to the address, into s->row. */
bool cfi_run(const struct cfi_section *section, uint64_t address, struct cfi_scratch *s);

/* --- expressions --------------------------------------------------------------- */

/* A value of a row that is an expression: place and length in one word. */
static inline uint64_t cfi_expression(const uint8_t *at, size_t bytes)
{
	return (uint64_t)(uintptr_t)at | (uint64_t)bytes << 48;
}
static inline const uint8_t *cfi_expression_at(uint64_t e)
{
	return (const uint8_t *)(uintptr_t)(e & ((UINT64_C(1) << 48) - 1));
}
static inline size_t cfi_expression_bytes(uint64_t e) { return (size_t)(e >> 48); }

/* A number, or a register + number, or *(register + inner) + number. */
struct cfi_value {
	uint64_t number;
	int32_t inner;
	uint8_t form; /* enum cfi_form */
	uint8_t reg;
};
enum cfi_form { CFI_NUMBER = 0, CFI_REG_PLUS, CFI_MEMORY_PLUS };

#define CFI_STACK 32u

/* What an expression is evaluated against. */
struct cfi_machine {
	uint64_t reg[CFI_REGISTERS];
	uint32_t known; /* bit a register: reg[] holds its value */
	bool symbolic;  /* a register not known stays a symbol; no memory is read */
	uint8_t needed; /* after a failure: the register that was not known, or CFI_REGISTERS */
	struct stack_map *memory;
	struct cfi_value stack[CFI_STACK];
};

/* Evaluates, with *push on the stack first where push is not NULL. */
bool cfi_evaluate(struct cfi_machine *m, uint64_t expression, const struct cfi_value *push,
		  struct cfi_value *ret);

/* --- a bounded cursor, for the parsers --------------------------------------------- */

struct cfi_cursor {
	const uint8_t *at, *end;
	bool bad; /* read past the end once: everything after is 0 */
};

uint64_t cfi_fixed(struct cfi_cursor *c, unsigned bytes);
uint64_t cfi_uleb(struct cfi_cursor *c);
int64_t cfi_sleb(struct cfi_cursor *c);
/* Base for DW_EH_PE_datarel is data; *ret is not followed where the encoding is indirect. */
bool cfi_pointer(struct cfi_cursor *c, uint8_t encoding, uint64_t data, uint64_t *ret);

#define CFI_PE_OMIT     0xffu
#define CFI_PE_INDIRECT 0x80u

#endif
