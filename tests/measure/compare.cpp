// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cmath>
#include <normplace/measure/compare.hpp>
#include <sstream>
#include <string>

namespace np = normplace;

namespace {

// A report whose every quantity is 0.5, so that ratios can be set one at a time.
np::GradientReport report(std::size_t layers, std::size_t seeds) {
    np::GradientReport r;
    r.placement = "pre-ln";
    r.formula = "x + f(norm(x))";
    r.model.layers = layers;
    r.seeds = seeds;
    r.layers.resize(layers);
    np::for_each_quantity(r, [&](const std::string&, double& value, double& error) {
        value = 0.5;
        error = seeds > 0 ? 0.001 : 0.0;
    });
    return r;
}

std::string printed(const np::Comparison& comparison) {
    std::ostringstream text;
    text << comparison;
    return text.str();
}

void check_fits(const std::string& table) {
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
        CAPTURE(line);
        CHECK(line.size() <= 100);
    }
}

}  // namespace

TEST_CASE("the summary separates W_q and W_k, and names the worst of each group") {
    auto predicted = report(3, 0), measured = report(3, 8);
    predicted.layers[1].wv.norm = 0.5 * 1.2;
    predicted.layers[2].w2.norm = 0.5 / 1.1;
    predicted.layers[0].wk.norm = 0.5 / 2.0;
    const np::Comparison c = np::compare(predicted, measured);

    CHECK(c.matrices.count == 12);
    CHECK(c.matrices.worst == doctest::Approx(1.2));
    CHECK(c.matrices.worst_name == "layers.1.attention.value.weight");
    CHECK(c.matrices.geometric_mean == doctest::Approx(std::pow(1.2 / 1.1, 1.0 / 12)));
    CHECK(c.query_key.count == 6);
    CHECK(c.query_key.worst == doctest::Approx(0.5));
    CHECK(c.query_key.geometric_mean == doctest::Approx(std::pow(0.5, 1.0 / 6)));
    CHECK(c.readout.ratio() == 1.0);
    CHECK(c.loss.standard_error == 0.001);

    const std::string table = printed(c);
    CHECK(table.find("W_v of layer 2") != std::string::npos);
    CHECK(table.find("1.200*") != std::string::npos);
    check_fits(table);
}

TEST_CASE("a matrix that the model has not, or whose gradient is 0, has no ratio and spoils none") {
    auto predicted = report(2, 0), measured = report(2, 4);
    for (auto* r : {&predicted, &measured})
        for (auto& layer : r->layers) {
            layer.wq.norm = layer.wk.norm = 0.0;  // the paper's model: uniform attention
            layer.wo.norm = np::not_available;
        }
    const np::Comparison c = np::compare(predicted, measured);
    CHECK(c.query_key.count == 0);
    CHECK(std::isnan(c.query_key.geometric_mean));
    CHECK(c.matrices.count == 6);
    CHECK(c.matrices.geometric_mean == doctest::Approx(1.0));
    CHECK(printed(c).find("nan") == std::string::npos);
}

TEST_CASE("the prediction's marks stand beside it, and in no measured column") {
    auto predicted = report(2, 0), measured = report(2, 4);
    CHECK(printed(np::compare(predicted, measured)).find("warnings") == std::string::npos);
    predicted.layers[0].wq.validity = np::Validity::less_certain;
    predicted.layers[1].w2 = {np::not_available, 0.0, np::Validity::fails, np::Limit::below_large_scores};
    const np::Comparison c = np::compare(predicted, measured);
    const std::string table = printed(c);
    CHECK(table.find("\n   1   500~500.0(10)   500 500.0(10) ") != std::string::npos);
    CHECK(table.find("    - 500.0(10)\n~ less certain, - beyond the theory: the report's warnings say why.\n") !=
          std::string::npos);
    CHECK(c.matrices.count == 7);
    check_fits(table);
}

TEST_CASE("the table fits 100 columns whatever the sizes of the numbers, and shows at most 24 layers") {
    for (const double scale : {1e-12, 3e-5, 0.9996, 999.6, 1e7}) {
        auto predicted = report(400, 0), measured = report(400, 32);
        for (auto* r : {&predicted, &measured})
            np::for_each_quantity(*r, [&](const std::string& name, double& value, double& error) {
                const bool deep = name.starts_with("layers.3");
                value *= scale * (deep ? 1e5 : 1.2345);
                error *= scale * (deep ? 1e5 : 17.0);
            });
        const std::string table = printed(np::compare(predicted, measured));
        check_fits(table);
        CHECK(table.find("24 of 400 layers are shown.") != std::string::npos);
    }
}

TEST_CASE("reports of different models are refused, with what differs") {
    const auto predicted = report(2, 0);
    CHECK_THROWS_WITH(np::compare(predicted, predicted),
                      "compare: the second report, of pre-ln, is a prediction; expected a measurement");
    auto wider = report(2, 8);
    wider.model.width = 512;
    CHECK_THROWS_WITH(np::compare(predicted, wider),
                      "compare: the reports are of different models: width 256 is predicted and 512 is measured");
    auto other = report(2, 8);
    other.placement = "post-ln";
    CHECK_THROWS_WITH(
        np::compare(predicted, other),
        "compare: the reports are of different models: placement pre-ln is predicted and post-ln is measured");
    auto activated = report(2, 8);
    activated.model.activation = np::gelu;
    CHECK_THROWS_AS(np::compare(predicted, activated), std::invalid_argument);
    auto short_one = report(2, 8);
    short_one.layers.pop_back();
    CHECK_THROWS_AS(np::compare(predicted, short_one), std::invalid_argument);
}
