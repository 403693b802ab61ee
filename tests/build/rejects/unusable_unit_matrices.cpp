// says: normplace: a placement's unit_matrices is a constant: static constexpr bool unit_matrices = true;
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
    static constexpr int unit_matrices = 1;
};

static_assert(explain_placement<Mine>());
