// says: normplace: a placement must say whether the stack ends in a norm
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = x + f(norm(x));
};

static_assert(explain_placement<Mine>());
