#include "base/units.h"

#include <inttypes.h>
#include <string.h>

char *units_format_size(char buffer[UNITS_BYTES], uint64_t bytes)
{
	static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

	if (bytes < 1024) {
		snprintf(buffer, UNITS_BYTES, "%" PRIu64 " B", bytes);
		return buffer;
	}
	for (unsigned int i = 0; i < 6; i++) {
		unsigned __int128 unit = (unsigned __int128)1 << (10 * (i + 1));
		uint64_t tenths = (uint64_t)(((unsigned __int128)bytes * 10 + unit / 2) / unit);

		if (i == 0 && tenths >= 100) {
			uint64_t whole = (uint64_t)((bytes + unit / 2) / unit);

			if (whole >= 1024)
				continue;
			snprintf(buffer, UNITS_BYTES, "%" PRIu64 " %s", whole, names[i]);
			return buffer;
		}
		if (tenths >= 10240 && i < 5)
			continue;
		snprintf(buffer, UNITS_BYTES, "%" PRIu64 ".%u %s", tenths / 10,
			 (unsigned int)(tenths % 10), names[i]);
		return buffer;
	}
	return buffer;
}

char *units_format_count(char buffer[UNITS_BYTES], uint64_t count)
{
	char digits[UNITS_BYTES];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
	char *out = buffer;

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
	return buffer;
}

char *units_format_short(char buffer[UNITS_BYTES], uint64_t count)
{
	static const char names[] = {'M', 'G', 'T', 'P', 'E'};

	if (count < 1000000)
		return units_format_count(buffer, count);
	uint64_t unit = 1000000;

	for (unsigned int i = 0; i < sizeof(names); i++, unit *= 1000) {
		uint64_t hundredths =
			(uint64_t)(((unsigned __int128)count * 100 + unit / 2) / unit);

		if (hundredths >= 100000 && i + 1 < sizeof(names))
			continue;
		if (hundredths < 1000)
			snprintf(buffer, UNITS_BYTES, "%u.%02u %c",
				 (unsigned int)(hundredths / 100), (unsigned int)(hundredths % 100),
				 names[i]);
		else if (hundredths < 10000)
			snprintf(buffer, UNITS_BYTES, "%u.%u %c", (unsigned int)(hundredths / 100),
				 (unsigned int)(hundredths / 10 % 10), names[i]);
		else
			snprintf(buffer, UNITS_BYTES, "%u %c", (unsigned int)(hundredths / 100),
				 names[i]);
		return buffer;
	}
	return buffer;
}

char *units_format_duration(char buffer[UNITS_BYTES], uint64_t ns)
{
	uint64_t hundredths = (ns + 5000000) / 10000000;
	uint64_t seconds = (ns + 500000000) / 1000000000;

	if (ns < 9950000)
		snprintf(buffer, UNITS_BYTES, "%u.%u ms", (unsigned int)((ns + 50000) / 1000000),
			 (unsigned int)((ns + 50000) / 100000 % 10));
	else if (ns < 99500000)
		snprintf(buffer, UNITS_BYTES, "%u ms", (unsigned int)((ns + 500000) / 1000000));
	else if (hundredths < 6000)
		snprintf(buffer, UNITS_BYTES, "%u.%02u s", (unsigned int)(hundredths / 100),
			 (unsigned int)(hundredths % 100));
	else if (seconds < 3600)
		snprintf(buffer, UNITS_BYTES, "%u min %u s", (unsigned int)(seconds / 60),
			 (unsigned int)(seconds % 60));
	else
		snprintf(buffer, UNITS_BYTES, "%" PRIu64 " h %u min", seconds / 3600,
			 (unsigned int)(seconds / 60 % 60));
	return buffer;
}

/* A decimal number of at most nine decimals in units of 10^-9; the rest in *end. */
static bool parse_decimal(const char *text, unsigned __int128 *ret, const char **end)
{
	unsigned __int128 value = 0;
	uint64_t decimal = 1000000000;
	bool digits = false;

	for (; *text >= '0' && *text <= '9'; text++) {
		value = value * 10 + (unsigned int)(*text - '0');
		if (value > UINT64_MAX)
			return false;
		digits = true;
	}
	value *= 1000000000;
	if (*text == '.') {
		text++;
		for (; *text >= '0' && *text <= '9'; text++) {
			decimal /= 10;
			value += decimal * (unsigned int)(*text - '0');
			digits = true;
		}
	}
	*ret = value;
	*end = text;
	return digits;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static bool parse_unit(const char *text, const struct unit *units, size_t count, uint64_t *ret)
{
	unsigned __int128 value;
	const char *end;

	if (!parse_decimal(text, &value, &end))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(end, units[i].name) != 0)
			continue;
		/* value < 2^64 * 10^9 < 2^94, so the factor needs its own check. */
		if (units[i].factor && value > (~(unsigned __int128)0) / units[i].factor)
			return false;
		value = value * units[i].factor / 1000000000;
		if (value > UINT64_MAX)
			return false;
		*ret = (uint64_t)value;
		return true;
	}
	return false;
}

struct error *units_parse_size(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {
		{"", 1},
		{"B", 1},
		{"K", UINT64_C(1) << 10},
		{"k", UINT64_C(1) << 10},
		{"KiB", UINT64_C(1) << 10},
		{"M", UINT64_C(1) << 20},
		{"m", UINT64_C(1) << 20},
		{"MiB", UINT64_C(1) << 20},
		{"G", UINT64_C(1) << 30},
		{"g", UINT64_C(1) << 30},
		{"GiB", UINT64_C(1) << 30},
		{"T", UINT64_C(1) << 40},
		{"t", UINT64_C(1) << 40},
		{"TiB", UINT64_C(1) << 40},
		{"kB", 1000},
		{"KB", 1000},
		{"MB", 1000000},
		{"GB", 1000000000},
		{"TB", UINT64_C(1000000000000)},
	};

	if (parse_unit(text, units, sizeof(units) / sizeof(units[0]), ret))
		return NULL;
	return error_remedy(
		error_create(ERROR_USAGE, "not a size: '%s'", text),
		"Sizes are a number and K, M, G or T (1024), or kB, MB, GB or TB (1000).");
}

struct error *units_parse_duration(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {
		{"", 1000000000},
		{"s", 1000000000},
		{"ms", 1000000},
		{"us", 1000},
		{"m", UINT64_C(60) * 1000000000},
		{"min", UINT64_C(60) * 1000000000},
		{"h", UINT64_C(3600) * 1000000000},
	};

	if (parse_unit(text, units, sizeof(units) / sizeof(units[0]), ret))
		return NULL;
	return error_remedy(error_create(ERROR_USAGE, "not a length of time: '%s'", text),
			    "Times are a number and ms, s, m or h; a bare number is seconds.");
}
