// The square roots that are taken four at a time.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <normplace/train/moments.hpp>

using namespace normplace;

TEST_CASE_TEMPLATE("take_square_roots is std::sqrt, for any number of them", T, float, double) {
    const T infinity = std::numeric_limits<T>::infinity(), smallest = std::numeric_limits<T>::denorm_min();
    for (std::size_t count = 0; count < 12; ++count) {
        std::vector<T> roots{T(2), T(0), infinity, smallest, T(4), T(3), T(1e-20), T(7), T(1e20), T(9), T(5), T(6)};
        const std::vector<T> squares = roots;
        detail::take_square_roots(roots.data(), count);
        for (std::size_t i = 0; i < roots.size(); ++i)
            CHECK(roots[i] == (i < count ? std::sqrt(squares[i]) : squares[i]));
    }
    std::vector<T> undefined(5, T(-1));
    undefined[1] = std::numeric_limits<T>::quiet_NaN();
    detail::take_square_roots(undefined.data(), undefined.size());
    for (const T root : undefined) CHECK(std::isnan(root));
}
