// says: normplace: a placement's output is a formula of its streams without f, and with at most one norm
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = x + f(norm(x));
    static constexpr auto output = norm(f(x));
};

static_assert(explain_placement<Mine>());
