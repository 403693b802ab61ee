// says: normplace: a placement's inside must be callable as static SublayerNorms inside(const Depth&);
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
    static SublayerNorms inside() { return {}; }
};

static_assert(explain_placement<Mine>());
