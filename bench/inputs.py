"""What the real programs of the bench work on: the same bytes every time.

`directory` is a fresh one for a run of the bench; each function writes its file there once
and returns its path.
"""

import json
import random


def written(directory, name, make):
    path = directory / name
    if not path.exists():
        with path.open("w") as file:
            make(file)
    return path


def records(count):
    chance = random.Random(1)
    words = [f"word{i}" for i in range(500)]
    for i in range(count):
        yield {"id": i, "name": f"{chance.choice(words)} {chance.choice(words)}",
               "group": chance.choice(words), "score": round(chance.random() * 1000, 3),
               "active": chance.random() < 0.5,
               "tags": [chance.choice(words) for _ in range(chance.randrange(8))],
               "address": {"street": f"{chance.randrange(999)} {chance.choice(words)}",
                           "zip": str(chance.randrange(100000)), "country": None}}


def jq_document(directory):
    return written(directory, "records.json", lambda file: json.dump(list(records(30000)), file))


JQ_FILTER = ('map(select(.score > 100 and .active) | . + {size: (.tags | length)})'
             ' | group_by(.group) | map({group: .[0].group, n: length,'
             ' names: map(.name | ascii_upcase) | unique | length, top: max_by(.score).id})'
             ' | sort_by(-.n)')

PYTHON = '''
import collections, json, re, sys

class Account:
    def __init__(self, record):
        self.id = record["id"]
        self.name = record["name"]
        self.tags = set(record["tags"])
        self.score = record["score"]

    def merged(self, other):
        result = Account({"id": self.id, "name": self.name, "tags": [], "score": 0.0})
        result.tags = self.tags | other.tags
        result.score = self.score + other.score
        return result

def words(text):
    return [match.group().lower() for match in re.finditer(r"[a-z]+\\d", text)]

def report(records):
    groups = collections.defaultdict(list)
    for record in records:
        groups[record["group"]].append(Account(record))
    lines = []
    for name, accounts in sorted(groups.items()):
        total = accounts[0]
        for account in accounts[1:]:
            total = total.merged(account)
        lines.append(f"{name:>12} {len(accounts):6d} {total.score:12.3f} {len(total.tags)}")
    return lines

with open(sys.argv[1]) as file:
    text = file.read()
records = json.loads(text)
counts = collections.Counter(w for r in records for w in words(r["name"]))
lines = report(records)
index = {r["id"]: (r["name"].split(), r["address"]["street"]) for r in records}
text = json.dumps(sorted(records, key=lambda r: r["score"]))
print(len(lines), len(counts), len(index), len(text))
'''


def python_script(directory):
    return written(directory, "work.py", lambda file: file.write(PYTHON))


def sql(file):
    file.write("create table person(id integer primary key, name text, team text, score real);\n"
               "create table event(id integer primary key, person int, kind text, at int);\n"
               "create index event_person on event(person);\nbegin;\n")
    chance = random.Random(2)
    for record in records(20000):
        file.write(f"insert into person values({record['id']}, '{record['name']}',"
                   f" '{record['group']}', {record['score']});\n")
        for _ in range(2):
            file.write(f"insert into event(person, kind, at) values({record['id']},"
                       f" 'kind {chance.randrange(20)}', {chance.randrange(10**6)});\n")
    file.write("commit;\n")
    for i in range(200):
        file.write(f"select kind, count(*), max(at) from event where person between {i * 100}"
                   f" and {i * 100 + 99} group by kind order by 2 desc;\n")
    for _ in range(4):
        file.write("select team, count(*), sum(score), group_concat(kind) from person join event"
                   " on person.id = event.person group by team order by 3 desc limit 20;\n"
                   "select upper(name), length(group_concat(team || id)) from person"
                   " group by substr(name, 1, 6) having count(*) > 1 order by 1;\n")


def sql_script(directory):
    return written(directory, "work.sql", sql)


CXX_HEAD = '''
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct record {
	std::map<std::string, std::vector<std::pair<int, double>>> by_name;
	std::variant<int, std::string, std::vector<double>> any;
	std::unordered_map<int, std::shared_ptr<record<N>>> by_id;

	std::string text(const std::string &pattern) const
	{
		std::regex expression(pattern);
		std::ostringstream out;
		for (const auto &[name, values] : by_name)
			if (std::regex_search(name, expression))
				for (const auto &value : values)
					out << name << value.first + N << value.second;
		return out.str();
	}
};
'''
CXX_EACH = '''
std::string work{n}(std::vector<int> values)
{{
	record<{n}> one;
	std::sort(values.begin(), values.end(), [](int a, int b) {{ return a % {m} < b % {m}; }});
	std::function<int(int)> next = [&](int i) {{ return values[i] + {n}; }};
	for (int i = 0; i < {m}; i++)
		one.by_name[std::to_string(next(i))].emplace_back(i, i * 0.5);
	return one.text("[a-z]+{n}");
}}
'''


def cxx(file):
    file.write(CXX_HEAD)
    for n in range(1):
        file.write(CXX_EACH.format(n=n, m=n + 7))


def cxx_source(directory):
    return written(directory, "work.cpp", cxx)
