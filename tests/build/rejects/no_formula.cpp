// says: normplace: a placement needs a formula of x, f and norm
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto name = "mine";
    static constexpr bool final_norm = true;
};

static_assert(explain_placement<Mine>());
