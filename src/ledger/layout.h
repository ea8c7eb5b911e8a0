/*
 * The ledger's layout: what the agent writes and every reader reads.
 *
 * A session file (.mgl) is a sequence of 2 MiB units. Unit 0 holds the session
 * header, the control page and the seed page, one page each. From unit 1 on lie
 * extents of one or more units, taken by fetch_add on mgl_session.next_unit. Every
 * extent starts with an mgl_extent that names the process whose ledger it belongs
 * to. A unit without an extent's magic was taken by a process that died before it
 * wrote one: a reader skips that unit alone.
 *
 * Two kinds of extent:
 *   RECORDS  append-only records: process header, slots, rows, nodes, modules, blobs
 *   SHADOW   a directory and 4 KiB chunks of shadow words
 *
 * References inside a ledger are 32-bit *refs*. The record space of a process is its
 * RECORDS extents laid end to end by mgl_extent.first_unit; a ref is a place in it
 * divided by MGL_REF_BYTES. Ref 0 is "none" (it would be the first extent's header).
 * A ref never leaves its process.
 *
 * Writers: a field marked (A) has several and is atomic; any other has one, the owner
 * named at its struct. A reader of a live ledger loads each field once, at its own
 * width, and checks it before use: what stands in the file is untrusted.
 *
 * Units: sizes in bytes, times in CLOCK_MONOTONIC nanoseconds, little-endian.
 * Shared by agent and readers, so it depends on nothing but the compiler's headers.
 */
#ifndef MALLOGRAPH_LEDGER_LAYOUT_H
#define MALLOGRAPH_LEDGER_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MGL_LAYOUT_VERSION 3u

#define MGL_SESSION_MAGIC UINT64_C(0x31524744454c474d) /* "MGLEDGR1" */
#define MGL_EXTENT_MAGIC  UINT64_C(0x31544e545845474d) /* "MGEXTNT1" */
#define MGL_PROCESS_MAGIC UINT64_C(0x3153434f5250474d) /* "MGPROCS1" */

#define MGL_PAGE             4096u
#define MGL_UNIT_SHIFT       21u
#define MGL_UNIT_BYTES       (UINT64_C(1) << MGL_UNIT_SHIFT)
#define MGL_MAX_EXTENT_UNITS 8u /* 16 MiB */

/* Places in unit 0. The agent maps the three pages in one piece. */
#define MGL_CONTROL_OFFSET 4096u
#define MGL_SEED_OFFSET    8192u
#define MGL_HEAD_BYTES     12288u

#define MGL_REF_SHIFT      4u
#define MGL_REF_BYTES      16u
#define MGL_REF_UNIT_SHIFT (MGL_UNIT_SHIFT - MGL_REF_SHIFT) /* ref >> this = unit in record space */
#define MGL_MAX_RECORD_UNITS \
	4095u /* 8 GiB: what a shadow word's 26 bits of row can name, \
				    * less the unit that MGL_SHADOW_TAG would */

/* --- unit 0 ------------------------------------------------------------------ */

enum mgl_session_flags {
	MGL_SESSION_COLLECTED = 1, /* made and watched by a collector */
	MGL_SESSION_SELF = 2,      /* made by the first process itself (MALLOGRAPH_OUT) */
	MGL_SESSION_MEMFD = 4,     /* has no path: lost with its last process */
};

/* Written once by whoever creates the file, but for the fields marked (A). */
struct mgl_session {
	uint64_t magic; /* stored last */
	uint32_t layout_version;
	uint32_t flags;
	char writer[32];            /* "mallograph 0.1.0", NUL-padded */
	uint64_t unit_bytes;        /* MGL_UNIT_BYTES */
	uint64_t file_bytes;        /* size the sparse file was given */
	uint64_t start_ns;          /* CLOCK_MONOTONIC */
	uint64_t start_unix_ns;     /* CLOCK_REALTIME at the same instant */
	int32_t collector_pid;      /* 0 without one */
	_Atomic uint32_t left_out;  /* (A) processes that were not to be recorded */
	char missed_first[40];      /* by the first of `missed`: name (reason); may lack its NUL */
	_Atomic uint64_t next_unit; /* (A) first unit nobody took; starts at 1 */
	_Atomic uint64_t populated_bytes; /* (A) bytes the agents had populated */
	_Atomic uint32_t next_process;    /* (A) serial of the next ledger; starts at 1 */
	_Atomic uint32_t missed;          /* (A) processes that could not get a ledger */
};

/* Written by collectors, read by agents now and then (once a batch of numbers). */
struct mgl_control {
	uint32_t version;               /* 1 */
	_Atomic uint32_t off;           /* not 0: record no new allocation */
	_Atomic uint64_t max_bytes;     /* --max-ledger over the session; 0 = no limit */
	_Atomic uint32_t sample_period; /* 1 = every allocation */
	_Atomic uint32_t max_depth;     /* frames kept a stack; 0 = the default */
	_Atomic uint64_t cut;           /* reserved */
	_Atomic uint32_t retired; /* processes that are over and in the session's profile beside
				   * the file (.mgp), but in it no more */
};

/* In the control page, written once: which processes to record. Lines of text, ended by a
 * NUL: NO_FOLLOW alone, or ONLY or NOT and a shell pattern. */
#define MGL_CHOICE_OFFSET    256u
#define MGL_CHOICE_BYTES     3840u
#define MGL_CHOICE_NO_FOLLOW 'f'
#define MGL_CHOICE_ONLY      'o'
#define MGL_CHOICE_NOT       'n'

/* --- extents ------------------------------------------------------------------ */

enum mgl_extent_kind { MGL_EXTENT_RECORDS = 1, MGL_EXTENT_SHADOW = 2 };

/* Owner: the thread that took the extent; constant once magic is stored. */
struct mgl_extent {
	uint64_t magic;   /* stored last */
	uint32_t process; /* serial of the ledger, from 1 */
	uint32_t kind;
	uint32_t units;         /* 1 … MGL_MAX_EXTENT_UNITS */
	uint32_t first_unit;    /* RECORDS: place in record space, in units */
	uint32_t granule_shift; /* SHADOW: log2 of the bytes a word stands for */
	uint32_t reserved[9];
};

/* A process's header follows its first RECORDS extent's header (first_unit 0). */
#define MGL_PROCESS_OFFSET 64u

#define MGL_MISSED_NAME_BYTES 176u

/* SHADOW: the directory follows the header and ends with page units - 1. It has a uint64_t a
 * page from there on: the heap address whose words that page holds, 0 = unused. */
#define MGL_SHADOW_DIRECTORY_OFFSET 64u
#define MGL_PAGES_PER_UNIT          (MGL_UNIT_BYTES / MGL_PAGE)
#define MGL_CHUNK_WORDS             512u

/* One past the last page that the directory has an entry for. */
static inline uint32_t mgl_shadow_pages(uint32_t units)
{
	uint32_t entries = (units * MGL_PAGE - MGL_SHADOW_DIRECTORY_OFFSET) / 8;
	uint32_t pages = units * (uint32_t)MGL_PAGES_PER_UNIT;

	return units + entries < pages ? units + entries : pages;
}

/* --- process ------------------------------------------------------------------ */

/* report --json's function_called and the profile's api column. */
enum mgl_api {
	MGL_API_NONE = 0,
	MGL_API_MALLOC = 1,
	MGL_API_CALLOC = 2,
	MGL_API_REALLOC = 3,
	MGL_API_REALLOCARRAY = 4,
	MGL_API_MEMALIGN = 5,
	MGL_API_POSIX_MEMALIGN = 6,
	MGL_API_ALIGNED_ALLOC = 7,
	MGL_API_VALLOC = 8,
	MGL_API_PVALLOC = 9,
	MGL_API_NEW = 10,
	MGL_API_NEW_ARRAY = 11,
	MGL_API_ALIGNED_NEW = 12,
	MGL_API_ALIGNED_NEW_ARRAY = 13,
	MGL_API_MMAP = 14, /* mappings: never sites */
	MGL_API_MREMAP = 15,
	MGL_API_MUNMAP = 16,
	MGL_API_POOL = 20,
	MGL_API_COUNT = 24,
};

/* ROOT: the first program of a pid, of which nothing more is known. SPAWN and VFORK: likewise, but
 * told by whoever started it. */
enum mgl_how {
	MGL_HOW_ROOT = 1,
	MGL_HOW_FORK = 2,
	MGL_HOW_EXEC = 3,
	MGL_HOW_ATTACH = 4,
	MGL_HOW_SPAWN = 5,
	MGL_HOW_VFORK = 6,
};

enum mgl_state {
	MGL_STATE_STARTING = 0,
	MGL_STATE_RUNNING = 1,
	MGL_STATE_EXECING = 2,  /* inside an exec call; back to RUNNING if it fails */
	MGL_STATE_FINISHED = 3, /* the agent's destructor ran */
};

/* What became of a process, as its collector learned it; NONE = nobody said. */
enum mgl_end {
	MGL_END_NONE = 0,
	MGL_END_EXIT = 1,
	MGL_END_SIGNAL = 2,
	MGL_END_EXEC = 3,
	MGL_END_DETACHED = 4,
	MGL_END_LOST = 5, /* gone, and nobody saw how */
};

/* Why recording stopped in a process; 0 = it did not. */
enum mgl_inert {
	MGL_INERT_NONE = 0,
	MGL_INERT_LEDGER_LIMIT = 1, /* max_bytes reached */
	MGL_INERT_FILE_FULL = 2,    /* a page could not be populated, or no unit left */
	MGL_INERT_NO_MEMORY = 3,    /* private memory or address space refused */
	MGL_INERT_SECCOMP = 4,      /* system calls forbidden and populated space used up */
	MGL_INERT_DAMAGED = 5,      /* the ledger did not hold what the agent wrote */
	MGL_INERT_DETACHED = 6,
	MGL_INERT_COUNT = 7,
};

enum mgl_loss {
	MGL_LOSS_EARLY_CALLS = 0,  /* calls before the agent could start */
	MGL_LOSS_NESTED_CALLS = 1, /* calls from a handler inside a hook, passed through */
	MGL_LOSS_OCCUPIED = 2,     /* a block's free was never seen: found at its address's reuse */
	MGL_LOSS_CUT_STACKS = 3,   /* stacks that end before their root */
	MGL_LOSS_UNSHADOWED = 4,   /* blocks counted at their allocation whose free cannot be */
	MGL_LOSS_UNRECORDED = 5,   /* allocations after recording stopped short of room */
	MGL_LOSS_MAPPINGS_FULL = 6, /* mappings beyond the bounded table */
	MGL_LOSS_OWN_MALLOC =
		7, /* an allocator in a module, not seen: detail = "module (function why)" */
	MGL_LOSS_DEEPBIND = 8,        /* libraries opened with RTLD_DEEPBIND: detail = first */
	MGL_LOSS_DLMOPEN = 9,         /* libraries opened by dlmopen: detail = first */
	MGL_LOSS_MISSED_PROCESS = 10, /* children that run unrecorded: detail = first */
	MGL_LOSS_ABANDONED = 11,      /* hooks left by longjmp, thread cancellation … */
	MGL_LOSS_SECCOMP = 12,        /* a filter took system calls the agent grows by */
	MGL_LOSS_COUNT = 16,
};

/* The time table: allocation numbers and when they were taken, in blocks that double in size,
 * so that a short process has a short one; when full, every second one is dropped. Guarded for readers by time_seq
 * (odd while entries move). Its writer is whoever holds the agent's try-flag. */
struct mgl_time {
	_Atomic uint64_t number;
	_Atomic uint64_t ns;
};
#define MGL_TIME_BLOCK  16u /* entries of blocks 0 and 1; 32 in block 2, … */
#define MGL_TIME_BLOCKS 9u
#define MGL_TIME_MAX    (MGL_TIME_BLOCK << (MGL_TIME_BLOCKS - 1))

static inline uint32_t mgl_time_block(uint32_t i)
{
	return i < MGL_TIME_BLOCK ? 0 : 28u - (uint32_t)__builtin_clz(i);
}

/* Entries before the block's, and in it. */
static inline uint32_t mgl_time_before(uint32_t block)
{
	return block ? MGL_TIME_BLOCK << (block - 1) : 0;
}

static inline uint32_t mgl_time_entries(uint32_t block)
{
	return MGL_TIME_BLOCK << (block ? block - 1 : 0);
}

/* A live mapping made by the program; start 0 = free, 1 = being changed. (A) */
struct mgl_mapping {
	_Atomic uint64_t start;
	_Atomic uint64_t bytes;
};
#define MGL_MAPPINGS 1024u

/* How a child of this process ended, as a wait told it. Constant once ns is stored. */
struct mgl_wait {
	_Atomic uint64_t ns; /* when the wait returned; stored last, 0 = not written */
	uint64_t since;      /* pid below 0: when system(3) was called */
	int32_t pid;         /* or, below 0, minus mgl_command_hash() of what a shell was to do */
	uint32_t status;     /* as waitpid(2) has it */
};

#define MGL_WAITS       170u
#define MGL_WAIT_BLOCKS 384u /* in one ledger: some 65,000 waits, 1.5 MiB */

/* A page of them. (A) */
struct mgl_waits {
	uint32_t next;         /* ref of the page filled before */
	uint32_t number;       /* of this page, from 1 */
	_Atomic uint32_t used; /* entries taken; may count past the last */
	uint32_t reserved0;
	struct mgl_wait waits[MGL_WAITS];
};

/* Owner: the thread that starts recording in the process, until state is RUNNING. */
struct mgl_process {
	uint64_t magic; /* stored last */
	uint32_t serial;
	uint32_t parent; /* serial it came from by fork, exec …; 0 = the reader finds it by ppid */
	uint32_t how;    /* enum mgl_how */
	int32_t pid;
	int32_t ppid;
	_Atomic uint32_t state;
	uint64_t start_ns;
	uint64_t starttime; /* of a ROOT: field 22 of /proc/PID/stat (clock ticks); 0 = not known */
	uint32_t granule_shift;
	uint32_t main_thread; /* tid */
	uint32_t exe;         /* ref of a blob: path, no NUL */
	uint32_t exe_bytes;
	uint32_t cwd;
	uint32_t cwd_bytes;
	uint32_t argv; /* ref of a blob: arguments, each ended by a NUL */
	uint32_t argv_bytes;
	uint32_t allocator; /* ref of a blob: path of the module malloc goes to */
	uint32_t allocator_bytes;
	uint32_t sample_period;
	_Atomic uint32_t waits; /* (A) newest mgl_waits; chained by next */

	_Atomic uint32_t slots;        /* (A) newest mgl_slot; chained by next */
	_Atomic uint32_t modules;      /* (A) newest mgl_module; chained by next */
	_Atomic uint32_t marks;        /* (A) reserved */
	_Atomic uint32_t mappings;     /* (A) ref of mgl_mapping[MGL_MAPPINGS], 0 = none yet */
	_Atomic uint32_t slot_count;   /* (A) */
	_Atomic uint32_t module_count; /* (A) */
	_Atomic uint32_t inert;        /* (A) enum mgl_inert */
	_Atomic uint32_t generation;   /* (A) grows with every dlclose that unloaded something */
	_Atomic uint64_t inert_number; /* (A) allocation number when it stopped */
	_Atomic uint64_t inert_ns;     /* (A) */

	_Atomic uint64_t losses[MGL_LOSS_COUNT];      /* (A) */
	_Atomic uint64_t loss_detail[MGL_LOSS_COUNT]; /* (A) blob: ref << 32 | bytes */

	_Atomic uint64_t mapped_bytes; /* (A) live */
	_Atomic uint64_t mapped_peak;  /* (A) */

	_Atomic uint32_t time_seq;
	_Atomic uint32_t time_count;
	uint32_t time_blocks[MGL_TIME_BLOCKS]; /* refs of mgl_time[mgl_time_entries()] */
	uint32_t reserved1;
	_Atomic uint64_t inner; /* (A) blob, ref << 32 | bytes: "path (function)" and a NUL of each
				 * allocator in a module */
	uint32_t reserved2[4];
	_Atomic uint64_t time_gap; /* ns: entries closer than this are not kept */

	/* Written by a collector once the process is gone; end_kind last. */
	_Atomic uint32_t end_kind; /* enum mgl_end */
	_Atomic uint32_t end_code; /* exit status, or signal number */
	_Atomic uint64_t end_ns;
	_Atomic uint64_t rss_peak; /* VmHWM as last seen, in bytes; 0 = not known */

	/* The peak (one cache line). total is what threads have published of live bytes;
	 * what each still holds back stands in its slot's delta. */
	_Alignas(64) _Atomic uint64_t total;
	_Atomic uint64_t max;         /* largest total: the epoch */
	_Atomic uint64_t peak_number; /* allocation number at max */
	_Atomic uint64_t peak_error;  /* bound of what threads held back at max; 0 = exact */
	_Atomic uint64_t max_error;   /* bound of what threads ever held back: live bytes never
				       * were more than max and this */

	_Alignas(64) _Atomic uint64_t
		next_number; /* first allocation number not handed out; from 1 */

	/* (A) The end of the path of a program that could not be recorded, where a loss's
	 * detail says so: a child that has no ledger yet has no other room for it. */
	_Alignas(16) char missed_name[MGL_MISSED_NAME_BYTES];
};

/* A module as the program saw it in one generation. Constant but for unloaded_ns. */
struct mgl_module {
	uint32_t next;  /* ref of the one recorded before */
	uint32_t index; /* dense, from 1; what nodes name */
	uint64_t start; /* first and last+1 mapped address */
	uint64_t stop;
	uint64_t bias;                /* pc − bias is the address in the ELF file */
	uint64_t loaded_ns;           /* when the agent first met it */
	_Atomic uint64_t unloaded_ns; /* 0 = still there */
	uint32_t path;                /* ref of a blob; empty for the program itself: see exe */
	uint32_t path_bytes;
	uint32_t flags; /* enum mgl_module_flags */
	uint32_t build_id_bytes;
	uint8_t build_id[32];
};
enum mgl_module_flags { MGL_MODULE_PROGRAM = 1, MGL_MODULE_VDSO = 2, MGL_MODULE_AGENT = 4 };

/* A trie node: a frame below its parent's. Constant. */
struct mgl_node {
	uint64_t pc;     /* return address as captured; see flags */
	uint32_t parent; /* ref of the outer frame's node; 0 = outermost */
	uint32_t where;  /* module index (low 20 bits, 0 = none) and flags */
};
#define MGL_NODE_MODULE_MASK 0xfffffu
#define MGL_NODE_EXACT       (1u << 20) /* pc is the instruction itself (signal frame) */
#define MGL_NODE_FP          (1u << 21) /* found by a frame-pointer step */
#define MGL_NODE_CUT         (1u << 22) /* no frame: outer frames are missing here; pc 0 */

/* --- threads ------------------------------------------------------------------ */

/* Of an allocation function only the failures: its rows have the rest. */
struct mgl_calls {
	_Atomic uint64_t calls; /* that succeeded */
	_Atomic uint64_t failed;
	_Atomic uint64_t bytes;
};

/* Owner: the thread that holds the slot, until a thread of the same name, or of one that begins
 * the same, adopts it. */
struct mgl_slot {
	uint32_t next;       /* ref of the slot made before */
	uint32_t index;      /* dense, from 1 */
	_Atomic int32_t tid; /* owner now or last */
	uint32_t adopted;    /* threads that have owned it */
	char name[16];
	uint32_t level;        /* 0, or the depth of signal handlers it serves */
	_Atomic uint32_t rows; /* newest mgl_row; chained by next */
	_Atomic uint64_t op;   /* odd inside a hook; counts both edges */
	_Atomic uint64_t unknown_frees;
	_Atomic int64_t delta;            /* live bytes not yet in mgl_process.total */
	_Atomic uint64_t number;          /* last allocation number used */
	_Atomic uint64_t inherited_frees; /* of blocks that a parent had when it forked */
	uint64_t reserved[2];
	struct mgl_calls calls[MGL_API_COUNT];
};

/* Counters of one (stack, function called, size class) in one slot. live blocks =
 * allocs − frees over all slots' rows of a site; a row alone may be negative.
 * Store order at a change: peak, epoch, then live. Aligned to its own size. */
struct mgl_row {
	uint32_t node;
	uint8_t size_class;
	uint8_t api;
	uint16_t heap;
	uint32_t slot;          /* ref of the owner */
	uint32_t self;          /* ref of this row */
	_Atomic uint64_t epoch; /* mgl_process.max when peak_* were last taken */
	_Atomic uint64_t allocs;
	_Atomic uint64_t bytes_in;
	_Atomic uint64_t frees;
	_Atomic uint64_t bytes_out;
	_Atomic uint64_t lifetime; /* sum over frees, in allocations of the process */

	/* The second cache line, seldom touched. */
	_Atomic uint64_t temporaries;
	_Atomic int64_t
		peak_blocks; /* live at epoch; if epoch is stale, live is the peak's share */
	_Atomic int64_t peak_bytes;
	_Atomic uint64_t moved;         /* reallocs that moved the block */
	_Atomic uint64_t foreign_frees; /* blocks another slot's row had counted in */
	uint32_t next;                  /* ref of the slot's row made before */
	uint32_t reserved0;
	uint64_t reserved1[2];
};

_Static_assert(sizeof(struct mgl_session) == 152, "session header");
_Static_assert(sizeof(struct mgl_control) <= MGL_CHOICE_OFFSET &&
		       MGL_CHOICE_OFFSET + MGL_CHOICE_BYTES <= MGL_PAGE,
	       "control page");
_Static_assert(sizeof(struct mgl_extent) == 64, "extent header");
_Static_assert(sizeof(struct mgl_node) == MGL_REF_BYTES, "node");
_Static_assert(sizeof(struct mgl_row) == 128, "row");
_Static_assert(sizeof(struct mgl_waits) == MGL_PAGE, "waits");
_Static_assert(sizeof(struct mgl_slot) == 96 + 24 * MGL_API_COUNT, "slot");
_Static_assert(sizeof(struct mgl_process) + MGL_PROCESS_OFFSET <= MGL_PAGE, "process header");
_Static_assert((MGL_PROCESS_OFFSET + offsetof(struct mgl_process, missed_name)) % MGL_REF_BYTES ==
		       0,
	       "missed_name has a ref");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4, "atomics");

/* What tells the shells apart that system(3) starts at one time: FNV-1a, from 1 to 2^31 - 1. */
static inline int32_t mgl_command_hash(const char *text, uint64_t bytes)
{
	uint32_t hash = 2166136261u;
	for (uint64_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)text[i]) * 16777619u;
	return (int32_t)(hash >> 1 | 1u);
}

/* --- size classes --------------------------------------------------------------
 * Log-linear: exact below 16, then four a power of two. The largest is 255. */

static inline uint32_t mgl_size_class(uint64_t size)
{
	if (size < 16)
		return (uint32_t)size;
	uint32_t e = 63u ^ (uint32_t)__builtin_clzll(size);
	return 4u * e - 4u + (uint32_t)(size >> (e - 2u));
}

static inline uint64_t mgl_class_low(uint32_t c)
{
	if (c < 16)
		return c;
	return (uint64_t)(4u + (c & 3u)) << ((c - 16u) / 4u + 2u);
}

/* How many sizes share the class. */
static inline uint64_t mgl_class_width(uint32_t c)
{
	return c < 16 ? 1 : UINT64_C(1) << ((c - 16u) / 4u + 2u);
}

/* --- shadow words ---------------------------------------------------------------
 * row (26 bits, ref >> 3) | start in the granule, in 8 bytes (2) | size − class_low
 * (12) | birth (24). 0 = no block starts in this granule.
 * From class MGL_LARGE_CLASS on (32 KiB) the 12 bits are 0 and the next granule's word
 * is MGL_SHADOW_TAG | the low 38 bits of size − class_low; where the class is wider
 * than that, the granule after it holds the rest under the same tag. */

#define MGL_LARGE_CLASS       60u
#define MGL_SHADOW_TAG        (UINT64_C(0x3ffffff) << 38)
#define MGL_SHADOW_START      (UINT64_C(3) << 36)
#define MGL_SHADOW_LARGE_BITS 38u
#define MGL_SHADOW_LARGE_MASK ((UINT64_C(1) << MGL_SHADOW_LARGE_BITS) - 1)

static inline uint64_t mgl_shadow_word(uint32_t row, uint32_t start, uint32_t rest, uint32_t birth)
{
	return (uint64_t)(row >> 3) << 38 | (uint64_t)(start & 3u) << 36 |
	       (uint64_t)(rest & 0xfffu) << 24 | (birth & 0xffffffu);
}
static inline uint32_t mgl_shadow_row(uint64_t w) { return (uint32_t)(w >> 38) << 3; }
static inline uint32_t mgl_shadow_start(uint64_t w) { return (uint32_t)(w >> 36) & 3u; }
static inline uint32_t mgl_shadow_rest(uint64_t w) { return (uint32_t)(w >> 24) & 0xfffu; }
static inline uint32_t mgl_shadow_birth(uint64_t w) { return (uint32_t)w & 0xffffffu; }

/* Birth: an allocation number as a minifloat of 5 bits scale, 19 bits mantissa. Exact
 * below 2^20, then rounded down by less than 2^-19; monotonic; saturates at 2^50. */
static inline uint32_t mgl_birth(uint64_t number)
{
	if (number < (1u << 19))
		return (uint32_t)number;
	uint32_t e =
		63u - (uint32_t)__builtin_clzll(number) - 19u; /* number >> e in [2^19, 2^20) */
	if (e > 30u)
		return 0xffffffu;
	return (e + 1u) << 19 | ((uint32_t)(number >> e) & 0x7ffffu);
}

static inline uint64_t mgl_birth_number(uint32_t birth)
{
	uint32_t e = birth >> 19;
	uint64_t m = birth & 0x7ffffu;
	return e == 0 ? m : (m | 1u << 19) << (e - 1u);
}

#endif
