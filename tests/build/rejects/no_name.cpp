// says: normplace: a placement needs a name
#include <normplace/placement/catalogue.hpp>

using namespace normplace;

struct Mine {
    static constexpr auto formula = x + f(norm(x));
    static constexpr bool final_norm = true;
};

static_assert(explain_placement<Mine>());
