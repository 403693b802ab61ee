// says: normplace: a placement's formula must contain f exactly once
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = x + norm(x);
    static constexpr bool final_norm = true;
};

static_assert(explain_placement<Mine>());
