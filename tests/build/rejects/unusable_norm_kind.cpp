// says: normplace: a placement's norm_kind is a constant: static constexpr auto norm_kind = NormKind::unit_norm;
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
    static constexpr auto norm_kind = "unit-norm";
};

static_assert(explain_placement<Mine>());
