// Templates, lambdas in lambdas, anonymous namespaces, classes in functions, operators,
// extern "C" in a namespace, exceptions, the standard library inlined.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace shop
{
namespace
{
int secret(int x) { return x * 7 + 1; }

struct hidden {
	explicit hidden(int x) : value(x) {}
	__attribute__((noinline)) int twice() const { return secret(value) * 2; }
	int value;
};
} // namespace

extern "C" __attribute__((noinline)) int plain_c(int x) { return x + 42; }

inline namespace v2
{
template <typename Key, typename Value> class store
{
      public:
	struct entry {
		Key key;
		Value value;
		bool operator<(const entry &other) const { return key < other.key; }
	};

	__attribute__((noinline)) void add(Key key, Value value)
	{
		entries.push_back({std::move(key), std::move(value)});
		std::sort(entries.begin(), entries.end());
	}

	template <typename Function> __attribute__((noinline)) int each(Function function) const
	{
		int sum = 0;

		for (const auto &entry : entries)
			sum += function(entry);
		return sum;
	}

	Value &operator[](const Key &key)
	{
		for (auto &entry : entries)
			if (entry.key == key)
				return entry.value;
		throw std::out_of_range("no such key");
	}

      private:
	std::vector<entry> entries;
};
} // namespace v2

static __attribute__((noinline)) int count(const std::map<std::string, std::unique_ptr<int>> &map)
{
	return std::count_if(map.begin(), map.end(),
			     [](const auto &pair) { return *pair.second > secret(1); });
}

template <int depth> inline __attribute__((always_inline)) int descend(std::vector<int> &v)
{
	if constexpr (depth == 0) {
		v.push_back(rand());
		return v.back();
	} else {
		return descend<depth - 1>(v) + depth;
	}
}
} // namespace shop

static std::function<int(int)> make(int base)
{
	struct local {
		int base;
		__attribute__((noinline)) int operator()(int x) const
		{
			auto inner = [this](int y) {
				auto innermost = [&](int z) { return z * base + rand() % 2; };
				return innermost(y) + 1;
			};
			return inner(x) + inner(x + 1);
		}
	};

	return local{base};
}

int main(int argc, char **argv)
{
	shop::store<std::string, int> store;
	shop::store<long, std::string> other;
	std::map<std::string, std::unique_ptr<int>> map;
	std::vector<int> numbers;

	for (int i = 0; i < 10 + argc; i++) {
		store.add("key" + std::to_string(i), i);
		other.add(i, std::string(i, 'x'));
		map[std::to_string(i)] = std::make_unique<int>(i);
	}
	try {
		store["missing"] = 1;
	} catch (const std::out_of_range &error) {
		std::printf("%s\n", error.what());
	}
	std::printf("%d %d %d %d %d %d\n",
		    store.each([&](const auto &entry) { return entry.value + argc; }),
		    other.each([](const auto &entry) { return (int)entry.value.size(); }),
		    shop::count(map), shop::hidden(argc).twice(), shop::plain_c(argc),
		    shop::descend<4>(numbers) + make(argc)(3));
	(void)argv;
	return 0;
}
