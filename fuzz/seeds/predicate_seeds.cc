#include <string>

#include "seeds/seeds.h"

namespace shardkit::fuzz {

void AddPredicateSeeds(SeedWriter& seeds) {
  int number = 0;
  for (const char* const text :
       {"i > 3 and mean(a) > 0.9 and key ~ \"1*\"", "not (u in (1, 2, 18446744073709551615) or b)", "f is not null",
        "i / 2 + 1 * -u % 3 <= 1e3", "any(a >= 1.5) and not all(2 < a)", "len(m) = 1 or count(a) != 3",
        "min(a) < max(a) or sum(a) = 0", "starts_with(t, 'a') or t not in ('', 'aa')", "`key` >= '2\\'\\\\'",
        "u > f or i = f or f != f", "b = true and t ~ '?a\\*'", "(i = 1) is null", "u * u * u > 0"}) {
    seeds.Add("predicate", std::to_string(number++), text);
  }
}

}  // namespace shardkit::fuzz
