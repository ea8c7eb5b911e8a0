#include "agent/insn.h"

#include <string.h>

/* What follows an opcode, a bit a byte. */
#define BITS(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)                                \
	((a) | (b) << 1 | (c) << 2 | (d) << 3 | (e) << 4 | (f) << 5 | (g) << 6 | (h) << 7 | \
	 (i) << 8 | (j) << 9 | (k) << 10 | (l) << 11 | (m) << 12 | (n) << 13 | (o) << 14 |  \
	 (p) << 15)

/* One-byte opcodes with a ModRM byte. */
static const uint16_t one_modrm[16] = {
	BITS(1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0), /* 0 */
	BITS(1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0), /* 1 */
	BITS(1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0), /* 2 */
	BITS(1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0), /* 3 */
	0,                                                    /* 4: REX */
	0,                                                    /* 5 */
	BITS(0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0), /* 6 */
	0,                                                    /* 7 */
	BITS(1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), /* 8 */
	0,                                                    /* 9 */
	0,                                                    /* A */
	0,                                                    /* B */
	BITS(1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0), /* C */
	BITS(1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), /* D */
	0,                                                    /* E */
	BITS(0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1), /* F */
};

/* One-byte opcodes that are none in 64-bit mode. */
static const uint16_t one_unknown[16] = {
	BITS(0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0), /* 0 */
	BITS(0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1), /* 1 */
	BITS(0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1), /* 2 */
	BITS(0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1), /* 3 */
	0,
	0,
	BITS(1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), /* 6 */
	0,
	BITS(0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), /* 8 */
	BITS(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0), /* 9 */
	0,
	0,
	BITS(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0), /* C */
	BITS(0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0), /* D */
	BITS(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0), /* E */
	0,
};

/* Opcodes behind 0F without a ModRM byte. */
static const uint16_t two_plain[16] = {
	BITS(0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 0), /* 0 */
	0,
	0,
	BITS(1, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0), /* 3 */
	0,
	0,
	0,
	BITS(0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0), /* 7 */
	0xffff,                                               /* 8: Jcc */
	0,
	BITS(1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0), /* A */
	0,
	BITS(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), /* C */
	0,
	0,
	0,
};

/* And those that are none, or take what this does not read (3DNow!). */
static const uint16_t two_unknown[16] = {
	BITS(0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1), /* 0 */
	0,
	BITS(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0), /* 2 */
	BITS(0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 1, 1), /* 3 */
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
	0,
};

struct reader {
	const uint8_t *at;
	size_t room, used;
	bool overran;
};

static uint8_t next(struct reader *r)
{
	if (r->used >= r->room || r->used >= INSN_MOST) {
		r->overran = true;
		return 0;
	}
	return r->at[r->used++];
}

static void skip(struct reader *r, size_t bytes)
{
	if (bytes > r->room - r->used || r->used + bytes > INSN_MOST)
		r->overran = true;
	else
		r->used += bytes;
}

static bool bit(const uint16_t set[16], uint8_t opcode)
{
	return set[opcode >> 4] >> (opcode & 15) & 1;
}

/* Reads the ModRM byte and what it says follows; returns it. */
static uint8_t read_modrm(struct reader *r, struct insn *ret)
{
	uint8_t modrm = next(r);
	uint8_t mod = modrm >> 6, rm = modrm & 7, base = rm;

	if (mod == 3)
		return modrm;
	if (rm == 4)
		base = next(r) & 7;
	if (mod == 0 && rm == 5)
		ret->relative_at = (uint8_t)r->used;
	if (mod == 2 || (mod == 0 && base == 5))
		skip(r, 4);
	else if (mod == 1)
		skip(r, 1);
	return modrm;
}

static int64_t read_distance(struct reader *r, size_t bytes)
{
	int8_t near = 0;
	int32_t far = 0;
	size_t at = r->used;

	skip(r, bytes);
	if (r->overran)
		return 0;
	if (bytes == 1) {
		memcpy(&near, r->at + at, 1);
		return near;
	}
	memcpy(&far, r->at + at, 4);
	return far;
}

struct prefixes {
	bool operand; /* 66 */
	bool wide;    /* REX.W */
	bool repeat;  /* F3 */
	bool narrow;  /* 67: addresses of 32 bits */
};

/* Bytes of immediate operands of a one-byte opcode. */
static size_t one_immediate(uint8_t opcode, uint8_t modrm, const struct prefixes *p)
{
	size_t z = p->operand && !p->wide ? 2 : 4;

	if (opcode < 0x40)
		return (opcode & 7) == 4 ? 1 : (opcode & 7) == 5 ? z : 0;
	if (opcode >= 0xb0 && opcode <= 0xb7)
		return 1;
	if (opcode >= 0xb8 && opcode <= 0xbf)
		return p->wide ? 8 : z;
	switch (opcode) {
	case 0x6a:
	case 0x6b:
	case 0x80:
	case 0x83:
	case 0xa8:
	case 0xc0:
	case 0xc1:
	case 0xc6:
	case 0xcd:
	case 0xe4:
	case 0xe5:
	case 0xe6:
	case 0xe7:
		return 1;
	case 0x68:
	case 0x69:
	case 0x81:
	case 0xa9:
	case 0xc7:
		return z;
	case 0xa0:
	case 0xa1:
	case 0xa2:
	case 0xa3:
		return 8;
	case 0xc2:
	case 0xca:
		return 2;
	case 0xc8:
		return 3;
	case 0xf6:
		return (modrm >> 3 & 7) < 2 ? 1 : 0;
	case 0xf7:
		return (modrm >> 3 & 7) < 2 ? z : 0;
	default:
		return 0;
	}
}

static enum insn_kind one_kind(uint8_t opcode, uint8_t modrm)
{
	if (opcode == 0x90)
		return INSN_NOTHING;
	if (opcode == 0xc2 || opcode == 0xc3 || opcode == 0xca || opcode == 0xcb ||
	    opcode == 0xcc || opcode == 0xcf || opcode == 0xf4)
		return INSN_END;
	if (opcode == 0xff && ((modrm >> 3 & 7) == 4 || (modrm >> 3 & 7) == 5))
		return INSN_END;
	/* mod 0, rm 5: relative to the next instruction */
	if (opcode == 0xff && ((modrm >> 3 & 7) == 2 || (modrm >> 3 & 7) == 3))
		return modrm == 0x15 ? INSN_CALL_BY : INSN_SHORT;
	return INSN_PLAIN;
}

static bool read_one(struct reader *r, uint8_t opcode, const struct prefixes *p, struct insn *ret)
{
	uint8_t modrm = 0;

	if (bit(one_unknown, opcode))
		return false;
	if ((opcode & 0xf0) == 0x70 || opcode == 0xeb || opcode == 0xe8 || opcode == 0xe9) {
		ret->kind = opcode == 0xe8 ? INSN_CALL : opcode < 0x80 ? INSN_JUMP_IF : INSN_JUMP;
		ret->condition = opcode & 15;
		ret->distance = read_distance(r, opcode == 0xe8 || opcode == 0xe9 ? 4 : 1);
		/* 66 before a near branch means different things to different makers. */
		return !p->operand || opcode == 0xe8;
	}
	if (opcode >= 0xe0 && opcode <= 0xe3) {
		ret->kind = INSN_SHORT;
		ret->distance = read_distance(r, 1);
		return true;
	}
	if (bit(one_modrm, opcode))
		modrm = read_modrm(r, ret);
	/* XBEGIN and XABORT; POP is the only other one of its group. */
	if ((opcode == 0xc6 || opcode == 0xc7) && (modrm >> 3 & 7) != 0)
		return false;
	skip(r, one_immediate(opcode, modrm, p));
	ret->kind = p->repeat && opcode == 0x90 ? INSN_PLAIN /* PAUSE */ : one_kind(opcode, modrm);
	return true;
}

static bool read_two(struct reader *r, const struct prefixes *p, struct insn *ret)
{
	uint8_t opcode = next(r), modrm;

	if (opcode == 0x38 || opcode == 0x3a) {
		next(r);
		read_modrm(r, ret);
		skip(r, opcode == 0x3a);
		return true;
	}
	if (bit(two_unknown, opcode))
		return false;
	if ((opcode & 0xf0) == 0x80) {
		ret->kind = INSN_JUMP_IF;
		ret->condition = opcode & 15;
		ret->distance = read_distance(r, 4);
		return !p->operand;
	}
	if (opcode == 0x0b) {
		ret->kind = INSN_END;
		return true;
	}
	if (bit(two_plain, opcode))
		return true;
	modrm = read_modrm(r, ret);
	if (opcode == 0x70 || opcode == 0x71 || opcode == 0x72 || opcode == 0x73 ||
	    opcode == 0xa4 || opcode == 0xac || opcode == 0xba || opcode == 0xc2 ||
	    opcode == 0xc4 || opcode == 0xc5 || opcode == 0xc6)
		skip(r, 1);
	/* ENDBR64 and the no-ops of any length. */
	if (opcode == 0x1f || (opcode == 0x1e && p->repeat && modrm == 0xfa))
		ret->kind = INSN_NOTHING;
	return true;
}

/* VEX and EVEX: the map tells, as the bytes behind 0F do, whether an operand of one byte ends it. */
static bool read_vector(struct reader *r, uint8_t first, struct insn *ret)
{
	uint8_t second = next(r), map = 1, opcode;

	if (first == 0xc4) {
		map = second & 0x1f;
		next(r);
	} else if (first == 0x62) {
		map = second & 7;
		next(r);
		next(r);
	}
	if (map < 1 || map > 6 || map == 4)
		return false;
	opcode = next(r);
	if (map == 1 && opcode == 0x77 && first != 0x62)
		return true; /* VZEROUPPER */
	read_modrm(r, ret);
	if (map == 3 || (map == 1 && ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
				      opcode == 0xc4 || opcode == 0xc5 || opcode == 0xc6)))
		skip(r, 1);
	return true;
}

bool insn_read(const uint8_t *at, size_t room, struct insn *ret)
{
	struct reader r = {.at = at, .room = room};
	struct prefixes p = {0};
	uint8_t opcode = next(&r);
	bool known;

	*ret = (struct insn){.kind = INSN_PLAIN};
	for (;; opcode = next(&r)) {
		if (opcode == 0x66)
			p.operand = true;
		else if (opcode == 0xf3)
			p.repeat = true;
		else if (opcode == 0x67)
			p.narrow = true;
		else if (opcode != 0xf2 && opcode != 0xf0 && opcode != 0x2e && opcode != 0x36 &&
			 opcode != 0x3e && opcode != 0x26 && opcode != 0x64 && opcode != 0x65)
			break;
	}
	if ((opcode & 0xf0) == 0x40) {
		p.wide = opcode & 8;
		opcode = next(&r);
	}
	if (opcode == 0x0f)
		known = read_two(&r, &p, ret);
	else if (opcode == 0xc4 || opcode == 0xc5 || opcode == 0x62)
		known = read_vector(&r, opcode, ret);
	else
		known = read_one(&r, opcode, &p, ret);
	ret->bytes = (uint8_t)r.used;
	if (p.narrow && (ret->relative_at || (opcode >= 0xa0 && opcode <= 0xa3)))
		return false;
	return known && !r.overran;
}

/* --- moving ------------------------------------------------------------------------- */

static bool put_distance(uint8_t *to, uintptr_t end, uintptr_t target)
{
	int64_t distance = (int64_t)(target - end);
	int32_t narrow = (int32_t)distance;

	memcpy(to, &narrow, sizeof(narrow));
	return narrow == distance;
}

bool insn_jump(uint8_t bytes[INSN_JUMP_BYTES], uintptr_t at, uintptr_t target)
{
	bytes[0] = 0xe9;
	return put_distance(bytes + 1, at + INSN_JUMP_BYTES, target);
}

/* What is called returns to where it would have, so that whoever unwinds meets no frame here. */
static size_t push_return(uintptr_t end, uint8_t *to)
{
	static const uint8_t store[] = {0xc7, 0x44, 0x24, 0x04}; /* movl $high, 4(%rsp) */
	uint32_t low = (uint32_t)end, high = (uint32_t)(end >> 32);

	to[0] = 0x68; /* push; the upper half is its sign until the next one */
	memcpy(to + 1, &low, 4);
	memcpy(to + 5, store, sizeof(store));
	memcpy(to + 9, &high, 4);
	return 13;
}

static bool move_call(uintptr_t end, uintptr_t target, uint8_t *to, uintptr_t runs_at, size_t *ret)
{
	size_t n = push_return(end, to);

	*ret = n + INSN_JUMP_BYTES;
	return insn_jump(to + n, runs_at + n, target);
}

/* jmp *pointer(%rip) */
static bool move_call_by(uintptr_t end, int32_t relative, uint8_t *to, uintptr_t runs_at,
			 size_t *ret)
{
	size_t n = push_return(end, to);

	to[n] = 0xff;
	to[n + 1] = 0x25;
	*ret = n + 6;
	return put_distance(to + n + 2, runs_at + *ret, end + (uintptr_t)(int64_t)relative);
}

bool insn_move(const uint8_t *from, const struct insn *insn, uint8_t *to, uintptr_t runs_at,
	       size_t *ret)
{
	uintptr_t end = (uintptr_t)from + insn->bytes;
	uintptr_t target = end + (uintptr_t)insn->distance;
	int32_t relative;

	*ret = insn->bytes;
	switch (insn->kind) {
	case INSN_SHORT:
		return false;
	case INSN_CALL:
		return move_call(end, target, to, runs_at, ret);
	case INSN_CALL_BY:
		memcpy(&relative, from + insn->relative_at, sizeof(relative));
		return move_call_by(end, relative, to, runs_at, ret);
	case INSN_JUMP:
		*ret = INSN_JUMP_BYTES;
		return insn_jump(to, runs_at, target);
	case INSN_JUMP_IF:
		to[0] = 0x0f;
		to[1] = (uint8_t)(0x80 | insn->condition);
		*ret = 6;
		return put_distance(to + 2, runs_at + 6, target);
	default:
		break;
	}
	memcpy(to, from, insn->bytes);
	if (!insn->relative_at)
		return true;
	memcpy(&relative, from + insn->relative_at, sizeof(relative));
	return put_distance(to + insn->relative_at, runs_at + insn->bytes,
			    end + (uintptr_t)(int64_t)relative);
}
