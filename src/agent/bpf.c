#include "agent/bpf.h"

#include <string.h>

struct machine {
	uint32_t a, x;
	uint32_t memory[BPF_MEMWORDS];
	const struct seccomp_data *data;
};

static bool operate(struct machine *m, uint16_t code, uint32_t operand)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		m->a += operand;
		return true;
	case BPF_SUB:
		m->a -= operand;
		return true;
	case BPF_MUL:
		m->a *= operand;
		return true;
	case BPF_DIV:
		if (operand == 0)
			return false; /* the kernel ends such a run as a kill */
		m->a /= operand;
		return true;
	case BPF_AND:
		m->a &= operand;
		return true;
	case BPF_OR:
		m->a |= operand;
		return true;
	case BPF_XOR:
		m->a ^= operand;
		return true;
	case BPF_LSH:
		m->a <<= operand & 31;
		return true;
	case BPF_RSH:
		m->a >>= operand & 31;
		return true;
	case BPF_NEG:
		m->a = -m->a;
		return true;
	default:
		return false;
	}
}

static bool compare(const struct machine *m, uint16_t code, uint32_t operand, bool *ret)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		*ret = m->a == operand;
		return true;
	case BPF_JGT:
		*ret = m->a > operand;
		return true;
	case BPF_JGE:
		*ret = m->a >= operand;
		return true;
	case BPF_JSET:
		*ret = (m->a & operand) != 0;
		return true;
	default:
		return false;
	}
}

/* seccomp's loads: an aligned word of the call's data, its size, a constant, memory. */
static bool load(struct machine *m, const struct sock_filter *f, uint32_t *to)
{
	switch (f->code & ~(uint16_t)BPF_LDX) {
	case BPF_LD | BPF_W | BPF_ABS:
		if (f->k > sizeof(*m->data) - 4 || (f->k & 3) || BPF_CLASS(f->code) == BPF_LDX)
			return false;
		memcpy(to, (const char *)m->data + f->k, sizeof(*to));
		return true;
	case BPF_LD | BPF_W | BPF_LEN:
		*to = sizeof(*m->data);
		return true;
	case BPF_LD | BPF_IMM:
		*to = f->k;
		return true;
	case BPF_LD | BPF_MEM:
		if (f->k >= BPF_MEMWORDS)
			return false;
		*to = m->memory[f->k];
		return true;
	default:
		return false;
	}
}

/* One instruction that does not jump. */
static bool step(struct machine *m, const struct sock_filter *f)
{
	switch (BPF_CLASS(f->code)) {
	case BPF_LD:
		return load(m, f, &m->a);
	case BPF_LDX:
		return load(m, f, &m->x);
	case BPF_ST:
	case BPF_STX:
		if (f->k >= BPF_MEMWORDS)
			return false;
		m->memory[f->k] = BPF_CLASS(f->code) == BPF_ST ? m->a : m->x;
		return true;
	case BPF_ALU:
		return operate(m, f->code, BPF_SRC(f->code) == BPF_X ? m->x : f->k);
	case BPF_MISC:
		if (BPF_MISCOP(f->code) == BPF_TAX)
			m->x = m->a;
		else if (BPF_MISCOP(f->code) == BPF_TXA)
			m->a = m->x;
		else
			return false;
		return true;
	default:
		return false;
	}
}

bool bpf_run(const struct sock_filter *program, size_t count, const struct seccomp_data *data,
	     uint32_t *ret)
{
	struct machine m = {.data = data};

	for (size_t i = 0; i < count; i++) {
		const struct sock_filter *f = program + i;
		bool taken;

		switch (BPF_CLASS(f->code)) {
		case BPF_RET:
			*ret = BPF_RVAL(f->code) == BPF_A ? m.a : f->k;
			return true;
		case BPF_JMP:
			if (BPF_OP(f->code) == BPF_JA) {
				i += f->k;
				break;
			}
			if (!compare(&m, f->code, BPF_SRC(f->code) == BPF_X ? m.x : f->k, &taken))
				return false;
			i += taken ? f->jt : f->jf;
			break;
		default:
			if (!step(&m, f))
				return false;
		}
	}
	return false;
}
