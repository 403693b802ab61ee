// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/analysis/report.hpp>

using namespace normplace;

TEST_CASE("an empty report has every quantity once, by name, and no value") {
    GradientReport report;
    report.layers.resize(2);
    for (LayerReport& layer : report.layers) layer.attention.norms.push_back({"norm_in", {}, {}});
    std::vector<std::string> names;
    for_each_quantity(report, [&](const std::string& name, double& value, double& error) {
        CHECK(std::isnan(value));
        CHECK(error == 0.0);
        for (const std::string& other : names) CHECK(other != name);
        names.push_back(name);
    });
    const auto has = [&](const std::string& name) {
        for (const std::string& other : names)
            if (other == name) return true;
        return false;
    };
    CHECK(names.front() == "loss");
    CHECK(names.back() == "readout.weight");
    CHECK(has("layers.0.attention.query.weight"));
    CHECK(has("layers.1.attention.norm_in.gain"));
    CHECK(has("layers.1.feed_forward.linear2.bias"));
    CHECK(has("layers.1.feed_forward.stream.token_correlation"));
    CHECK(names.size() == 1 + 3 + 2 + 2 * (12 + 2 + 6) + 2 + 1);
}

TEST_CASE("the walk writes through") {
    GradientReport report;
    report.layers.resize(1);
    for_each_quantity(report, [](const std::string& name, double& value, double&) {
        if (name == "layers.0.feed_forward.linear1.weight") value = 2.5;
    });
    CHECK(report.layers[0].w1.norm == 2.5);
}
