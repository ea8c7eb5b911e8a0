/*
 * Machine instructions, as far as moving a function's first ones takes: where each ends, and
 * what in it depends on where it stands.
 *
 * Pure: no memory but what is passed, any thread, async-signal-safe. One file per
 * architecture. What is not known is refused, never guessed.
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2
 * and appendix A (opcode maps).
 */
#ifndef MALLOGRAPH_AGENT_INSN_H
#define MALLOGRAPH_AGENT_INSN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum insn_kind {
	INSN_PLAIN,
	INSN_NOTHING, /* a no-op, such as fills the space between functions */
	INSN_JUMP,
	INSN_JUMP_IF,
	INSN_CALL,
	INSN_CALL_BY, /* by a pointer that stands at a distance */
	INSN_SHORT, /* jumps by a distance that cannot be made longer; or calls by what may move */
	INSN_END, /* goes elsewhere, nobody here knows where: a return, an indirect jump, a trap */
};

struct insn {
	uint8_t bytes;
	uint8_t kind;        /* enum insn_kind */
	uint8_t condition;   /* of a JUMP_IF */
	uint8_t relative_at; /* offset of a 32-bit displacement from its end; 0 = none */
	int64_t distance;    /* of a jump or call: from its end */
};

/* The longest that one can be. */
#define INSN_MOST 15u

/* room: bytes that can be read. false: not one that is known, or it does not end there. */
bool insn_read(const uint8_t *at, size_t room, struct insn *ret);

/* What a jump to anywhere within 2 GiB takes. */
#define INSN_JUMP_BYTES 5u
/* Room for one instruction, moved: a call becomes a push and a jump. */
#define INSN_MOVED_MOST 20u

/* Writes to to (INSN_MOVED_MOST bytes) what does at runs_at what the instruction does where it
 * stands. *ret: bytes. false: it cannot be moved so far, or at all. */
bool insn_move(const uint8_t *from, const struct insn *insn, uint8_t *to, uintptr_t runs_at,
	       size_t *ret);
/* A jump that stands at at; false: the target is too far. */
bool insn_jump(uint8_t bytes[INSN_JUMP_BYTES], uintptr_t at, uintptr_t target);

#endif
