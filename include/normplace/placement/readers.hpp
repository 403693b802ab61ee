// SPDX-License-Identifier: BSD-3-Clause
//
// Who reads the value of one step of a plan: which says how long it must be kept, and whether one norm is all that it
// leads to.
#pragma once

#include <algorithm>
#include <cstddef>

#include <normplace/placement/plan.hpp>

namespace normplace {

struct Readers {
    std::size_t steps = 0, results = 0;  ///< how many
    std::size_t first = 0, last = 0;     ///< of the steps, if there are any

    bool only_one_step() const { return steps == 1 && results == 0; }
};

inline Readers readers(const Plan& plan, std::size_t step) {
    const auto read = [&](const Plan::Terms& terms) {
        return std::any_of(terms.begin(), terms.end(),
                           [&](const Plan::Term& term) { return term.source == plan.streams + step; });
    };
    Readers found;
    for (std::size_t k = step + 1; k < plan.steps.size(); ++k)
        if (read(plan.steps[k].input)) {
            if (found.steps++ == 0) found.first = k;
            found.last = k;
        }
    for (const Plan::Terms& result : plan.results) found.results += read(result);
    return found;
}

}  // namespace normplace
