// A parameter list as one row of entries.
#include <doctest/doctest.h>

#include <normplace/train/parameter_entries.hpp>

#include "parameters_by_hand.hpp"

using namespace normplace;
using namespace normplace::test;

TEST_CASE("any range of the row is visited once, in order, by the parameters that it covers") {
    ParametersByHand<float> parameters;
    const std::vector<std::size_t> sizes{3, 0, 1, 5};
    for (const std::size_t size : sizes) parameters.add(std::to_string(size), {size}, std::vector<float>(size));
    const ParameterList<float> list = parameters.list();
    REQUIRE(detail::entry_count(list) == 9);
    const std::vector<std::string> owner{"3", "3", "3", "1", "5", "5", "5", "5", "5"};
    const std::vector<std::size_t> index{0, 1, 2, 0, 0, 1, 2, 3, 4};
    for (std::size_t begin = 0; begin <= 9; ++begin)
        for (std::size_t end = begin; end <= 12; ++end) {
            CAPTURE(begin);
            CAPTURE(end);
            std::size_t next = begin;
            detail::for_entries(list, begin, end, [&](const auto& parameter, auto first, auto count, auto at) {
                CHECK(count > 0);
                CHECK(at == next);
                for (std::size_t i = 0; i < count; ++i) {
                    CHECK(parameter.name == owner[at + i]);
                    CHECK(first + i == index[at + i]);
                }
                next = at + count;
            });
            CHECK(next == std::min<std::size_t>(end, 9));
        }
}

TEST_CASE("a row by the parameters' names and shapes") {
    ParametersByHand<double> parameters;
    parameters.add("a.weight", {2, 3}, std::vector<double>(6));
    parameters.add("b", {2}, std::vector<double>(2));
    std::vector<double> row(8);
    std::vector<NamedTensor<double>> tensors;
    detail::append_named(tensors, "momentum", parameters.list(), row);
    REQUIRE(tensors.size() == 2);
    CHECK(tensors[0].name == "momentum.a.weight");
    CHECK(tensors[0].shape == std::vector<std::size_t>{2, 3});
    CHECK(tensors[0].entries.data() == row.data());
    CHECK(tensors[0].entries.size() == 6);
    CHECK(tensors[1].name == "momentum.b");
    CHECK(tensors[1].entries.data() == row.data() + 6);
    CHECK(tensors[1].entries.size() == 2);
}
