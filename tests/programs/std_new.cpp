/* A plugin that leaves operator new to the C++ library, which frees some of what it makes. */
#include <string>
#include <vector>

extern "C" int answer();

extern "C" int answer()
{
	std::vector<std::string> lines;

	for (int i = 0; i < 50; i++)
		lines.push_back(std::string(100 + static_cast<std::size_t>(i), 'x'));
	std::string all;
	for (const auto &line : lines)
		all += line;
	return all.size() == 50 * 100 + 49 * 50 / 2 ? 2 : -1;
}
