// says: normplace: a placement's formula reads a stream that it does not give
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = stream(1, "r") + f(x);
    static constexpr bool final_norm = true;
};

static_assert(explain_placement<Mine>());
