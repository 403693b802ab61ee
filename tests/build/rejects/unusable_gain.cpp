// says: normplace: a placement's gain must be callable as static double gain(Role, const Depth&);
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
    static double gain(Role) { return 0.5; }
};

static_assert(explain_placement<Mine>());
