// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cstddef>
#include <initializer_list>
#include <normplace/analysis/short_array.hpp>
#include <utility>

using normplace::detail::ShortArray;

TEST_CASE("short and long arrays are copied, moved and assigned alike") {
    for (const std::size_t size : {0, 1, 3, 4, 100}) {
        CAPTURE(size);
        ShortArray first(size);
        CHECK(first.size() == size);
        for (const double entry : first) CHECK(entry == 0.0);
        for (std::size_t i = 0; i < size; ++i) first[i] = static_cast<double>(i);

        ShortArray second(first);
        for (double& entry : second) entry += 1.0;
        CHECK(second.end() - second.begin() == static_cast<std::ptrdiff_t>(size));
        for (std::size_t i = 0; i < size; ++i) CHECK(second[i] == first[i] + 1.0);

        for (const std::size_t before : {2, 5}) {
            ShortArray copied(before, 7.0), moved(before, 7.0), source(second);
            CHECK(copied[before - 1] == 7.0);
            copied = first;
            moved = std::move(source);
            REQUIRE(copied.size() == size);
            REQUIRE(moved.size() == size);
            for (std::size_t i = 0; i < size; ++i) {
                CHECK(copied[i] == first[i]);
                CHECK(moved[i] == second[i]);
            }
            const ShortArray& itself = copied;
            copied = itself;
            REQUIRE(copied.size() == size);
            for (std::size_t i = 0; i < size; ++i) CHECK(copied[i] == first[i]);
        }
    }
    const ShortArray three{1.0, 2.0, 3.0}, four{1.0, 2.0, 3.0, 4.0};
    CHECK(three[2] == 3.0);
    CHECK(four[3] == 4.0);
    CHECK(ShortArray().size() == 0);
}
