#include "symbols/title.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

/* Past an operator's name, which may be made of brackets: "operator()", "operator<<"; but those
 * of template arguments follow it, as in "operator+<char>". */
static const char *skip_operator(const char *at)
{
	static const char *const names[] = {
		/* The longer ones first. */
		"->*", "<=>", "<<=", ">>=", "()", "[]", "->", "<<", ">>", "<=", ">=", "==", "!=",
		"&&",  "||",  "++",  "--",  "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=",
	};

	at += strlen("operator");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (starts_with(at, names[i]))
			return at + strlen(names[i]);
	return *at && strchr("<>=!+-*/%^&|~,", *at) ? at + 1 : at;
}

/* Past a pair of brackets and what is between them. */
static const char *skip_brackets(const char *at)
{
	unsigned int depth = 0;

	for (; *at; at++) {
		if (strchr("<([{", *at))
			depth++;
		else if (strchr(">)]}", *at) && !(*at == '>' && at[-1] == '-') && --depth == 0)
			return at + 1;
	}
	return at;
}

static bool ends_scope(const struct strbuf *name)
{
	return name->length >= 2 && memcmp(name->text + name->length - 2, "::", 2) == 0;
}

/*
 * The qualified name alone: "void std::vector<int>::push_back(int const&) const" is
 * "std::vector::push_back". A return type ends at the last space outside brackets before
 * the parameters; a name that begins with a bracket (Rust's "<T as Trait>::f") keeps it.
 */
static void append_plain(const char *function, struct strbuf *name)
{
	const char *at = function;

	while (*at) {
		bool begins_word = at == function || !is_word(at[-1]);

		if (begins_word && starts_with(at, "operator") && !is_word(at[8])) {
			const char *end = skip_operator(at);

			strbuf_append_bytes(name, at, (size_t)(end - at));
			/* "operator new(unsigned long)", "operator bool()", "operator<< <char>" */
			at = end;
			if (starts_with(at, " <")) {
				at++;
			} else if (*at == ' ') {
				size_t length = strcspn(at, "([<");

				strbuf_append_bytes(name, at, length);
				at += length;
			}
		} else if (*at == ' ') {
			if (strcmp(at, " const") == 0)
				return;
			strbuf_clear(name);
			at++;
		} else if (starts_with(at, "(anonymous namespace)") ||
			   (*at == '<' && at != function) || *at == '[' || *at == '{') {
			at = skip_brackets(at);
			/* A scope without a name. */
			if (starts_with(at, "::") && (name->length == 0 || ends_scope(name)))
				at += 2;
		} else if (*at == '<' || (*at == '(' && at != function && at[-1] == '.')) {
			/* Rust's type, and Go's: "net/http.(*conn).serve". */
			const char *end = skip_brackets(at);

			strbuf_append_bytes(name, at, (size_t)(end - at));
			at = end;
		} else if (*at == '(') {
			return;
		} else {
			strbuf_append_char(name, *at++);
		}
	}
}

void symbols_title_plain(const char *function, struct strbuf *name)
{
	append_plain(function, name);
	/* Of what had no name itself: a closure. */
	if (ends_scope(name))
		name->text[name->length -= 2] = '\0';
}

static const char *last_part(const char *name)
{
	const char *part = name;

	for (const char *at = strstr(name, "::"); at; at = strstr(part, "::"))
		part = at + 2;
	return part;
}

/* What Rust's "<&mut dyn core::ops::Fn() as …>::call" is of: "core::ops::Fn() …". */
static const char *rust_type(const char *name)
{
	static const char *const before[] = {"<", "&", "*const ", "*mut ", "mut ", "dyn "};
	bool more = *name == '<';

	if (!more)
		return "";
	name++;
	while (more) {
		more = false;
		for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++)
			if (starts_with(name, before[i])) {
				name += strlen(before[i]);
				more = true;
			}
	}
	return name;
}

/* xmalloc, alloc_bytes, Allocate: but not deallocate, nor what has to do with an allocator. */
static bool says_alloc(const char *name)
{
	for (const char *at = name; (at = strcasestr(at, "alloc")); at++) {
		const char *end = at + strlen("alloc");
		bool frees = at - name >= 2 && strncasecmp(at - 2, "de", 2) == 0;

		if (!frees && strncasecmp(end, "ator", 4) != 0 && strncasecmp(end, "ation", 5) != 0)
			return true;
	}
	return false;
}

/* Named like an allocator, as a program's own helpers are. */
static bool is_helper_name(const char *name)
{
	static const char *const parts[] = {
		"*memalign*", "*strdup*", "*strndup*", "*wcsdup*", "*memdup*",
	};

	if (says_alloc(last_part(name)))
		return true;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (fnmatch(parts[i], last_part(name), FNM_CASEFOLD) == 0)
			return true;
	return false;
}

/* Of the language or its runtime. */
static bool is_language_name(const char *name)
{
	static const char *const prefixes[] = {
		"operator new",
		"std::",
		"__gnu_cxx::",
		"alloc::",
		"PyMem_",
		"_PyMem_",
		"_PyObject_New",
		"_PyObject_GC_New",
		"_PyObject_GC_Resize",
		"PyUnicode_New",
		/* Go's way to C. */
		"runtime.asmcgocall",
		"runtime.cgocall",
		"_cgo_",
		"x_cgo_",
		"__rust_",
		"__rdl_",
		"__rg_",
		"hashbrown::",
		/* Rust's; `core` alone may be anybody's namespace. */
		"core::iter::",
		"core::option::",
		"core::result::",
		"core::ops::",
		"core::slice::",
		"core::str::",
		"core::ptr::",
		"core::mem::",
		"core::array::",
		"core::cell::",
		"core::fmt::",
	};
	static const char *const go[] = {"*._Cfunc_*", "*._C2func_*"};
	static const char *const rust[] = {"alloc::", "core::", "hashbrown::", "std::"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (starts_with(name, prefixes[i]))
			return true;
	for (size_t i = 0; i < sizeof(rust) / sizeof(*rust); i++)
		if (starts_with(rust_type(name), rust[i]))
			return true;
	for (size_t i = 0; i < sizeof(go) / sizeof(*go); i++)
		if (fnmatch(go[i], last_part(name), FNM_CASEFOLD) == 0)
			return true;
	return false;
}

enum kind {
	PROPER,
	MAIN,    /* and nothing of the program is further out */
	HELPER,  /* a wrapper by its name alone */
	WRAPPER, /* any other */
};

static enum kind kind_of(const char *function, const char *const *patterns, size_t pattern_count)
{
	CLEANUP_STRBUF struct strbuf buffer = STRBUF_EMPTY;

	symbols_title_plain(function, &buffer);
	const char *name = buffer.text && !buffer.failed ? buffer.text : function;

	for (size_t i = 0; i < pattern_count; i++)
		if (fnmatch(patterns[i], function, 0) == 0 || fnmatch(patterns[i], name, 0) == 0)
			return WRAPPER;
	if (is_language_name(name))
		return WRAPPER;
	if (is_helper_name(name))
		return HELPER;
	return strcmp(last_part(name), "main") == 0 || strcmp(name, "main.main") == 0 ? MAIN
										      : PROPER;
}

bool symbols_title_is_wrapper(const char *function, const char *const *patterns,
			      size_t pattern_count)
{
	return kind_of(function, patterns, pattern_count) >= HELPER;
}

/*
 * What the lines of a place give: bits 0 … 11 the depth of the first that is no wrapper, all ones
 * if there is none; 12 … 23 one more than the depth of a helper that is called by it or by the
 * next place, 0 if there is none; then whether the first is main, and whether another wrapper
 * stands outside of helpers further in. A place without lines is all zeros.
 */
#define DEPTH_NONE   UINT32_C(0xfff)
#define HELPER_SHIFT 12
#define HELPER_MASK  (DEPTH_NONE << HELPER_SHIFT)
#define IS_MAIN      (UINT32_C(1) << 24)
#define IS_CUT       (UINT32_C(1) << 25)

void symbols_title_line(uint32_t *named, uint32_t at, const char *function,
			const char *const *patterns, size_t pattern_count)
{
	if (*named == SYMBOLS_TITLE_NONE)
		*named = DEPTH_NONE;
	/* Deeper than anything is inlined. */
	if ((*named & DEPTH_NONE) != DEPTH_NONE || at >= DEPTH_NONE - 1)
		return;
	switch (function ? kind_of(function, patterns, pattern_count) : PROPER) {
	case HELPER:
		*named = (*named & ~HELPER_MASK) | (at + 1) << HELPER_SHIFT;
		break;
	case WRAPPER:
		*named = (*named & ~HELPER_MASK) | IS_CUT;
		break;
	case MAIN:
		*named = (*named & ~DEPTH_NONE) | at | IS_MAIN;
		break;
	case PROPER:
		*named = (*named & ~DEPTH_NONE) | at;
		break;
	}
}

static void take(struct symbols_title *title, uint32_t place, uint32_t depth, bool is_runtime)
{
	title->place = place;
	title->depth = depth;
	title->is_library = is_runtime;
}

bool symbols_title_place(struct symbols_title *title, uint32_t place, uint32_t named,
			 bool is_runtime)
{
	uint32_t depth = named & DEPTH_NONE, helper = (named & HELPER_MASK) >> HELPER_SHIFT;

	if (title->first == 0)
		title->first = place;
	if (is_runtime || named & IS_CUT)
		title->helper = 0;
	if (!is_runtime && helper && named != SYMBOLS_TITLE_NONE) {
		title->helper = place;
		title->helper_depth = helper - 1;
	}
	if (depth == DEPTH_NONE || (title->is_library && is_runtime))
		return true;
	if (!is_runtime && named & IS_MAIN && title->helper)
		take(title, title->helper, title->helper_depth, false);
	else
		take(title, place, depth, is_runtime);
	return is_runtime;
}

void symbols_title_end(struct symbols_title *title)
{
	if (title->place == 0)
		take(title, title->first, 0, false);
}

bool symbols_title_is_runtime(const char *path)
{
	static const char *const names[] = {
		"libc.so*",      "libc-2.*",    "libstdc++.so*", "libc++.so*",
		"libc++abi.so*", "libgcc_s*",   "ld-linux*",     "ld-2.*",
		"ld.so*",        "libpthread*", "libdl.so*",     "libdl-2.*",
	};
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (fnmatch(names[i], name, 0) == 0)
			return true;
	return false;
}
